import { type AwsKeys, signAwsRequest } from '../platform/outbound/aws-signature.ts'
import { buildTokenRequest, parseServiceAccount } from '../platform/outbound/google-token.ts'
import type { Trust } from '../platform/outbound/outbound.ts'
import { type CheckDeps, type CredentialVerdict, sendProbe } from './checks.ts'
import { apiVersion, awsRegion, type CredentialField, optional, serviceAccount, token } from './fields.ts'
import type { Cloud } from './schema.ts'
import type { Secret } from './seal.ts'

/** The properties of a cloud model that the check of a credential needs. */
type CloudModel = { provider: string; model: string; baseUrl: string; trust: Trust }

type CloudDefinition = {
  fields: CredentialField[]
  /** The provider whose variant of a protocol the cloud uses, where providers differ. Default: the model's own provider. */
  treatedAs?: string
  /** Sends a free request that needs a valid credential. */
  check: (deps: CheckDeps, model: CloudModel, secret: Secret) => Promise<CredentialVerdict>
}

/** Credentials of the clouds. How they are used in calls: `src/gateway/clouds/`. */
export const clouds: Record<Cloud, CloudDefinition> = {
  bedrock: {
    fields: [token('accessKeyId'), token('secretAccessKey'), optional(token('sessionToken')), awsRegion('region')],
    check: checkBedrock,
  },
  vertex: { fields: [serviceAccount('serviceAccount')], check: checkVertex },
  azure: { fields: [token('apiKey'), apiVersion('apiVersion')], check: checkAzure, treatedAs: 'openai' },
}

/** Lists the values of a secret that must not be stored or shown with a call. */
export const listConfidential = (cloud: Cloud | undefined, secret: Secret): string[] =>
  Object.entries(secret).flatMap(([name, value]) => {
    const field = cloud && clouds[cloud].fields.find((known) => known.name === name)
    return field && !field.secret ? [] : [value, ...listPrivateKeyTexts(value)]
  })

/** Lists the confidential members of a secret that is a key file of Google. */
const listPrivateKeyTexts = (value: string): string[] => {
  const [, key] = /"private_key"\s*:\s*"((?:[^"\\]|\\.)+)"/.exec(value) ?? []
  return key === undefined ? [] : [key, key.replaceAll('\\n', '\n')]
}

export const toAwsKeys = ({ accessKeyId = '', secretAccessKey = '', sessionToken, region = '' }: Secret): AwsKeys => ({
  accessKeyId,
  secretAccessKey,
  sessionToken,
  region,
})

/** Invokes the model with an empty request. Bedrock checks the signature and the permission before it refuses the body. */
async function checkBedrock(deps: CheckDeps, { provider, model, baseUrl, trust }: CloudModel, secret: Secret) {
  const runtimeUrl = baseUrl.replace(/(\/openai\/v1)?\/*$/, '')
  const url = `${runtimeUrl}/model/${encodeURIComponent(model)}/invoke`
  const body = Buffer.from('{}')
  const request = { url, method: 'POST', contentType: 'application/json', body }
  const headers = await signAwsRequest(toAwsKeys(secret), 'bedrock', request)
  return sendProbe(deps, { provider, url, headers, trust, body, acceptedStatus: 400 })
}

/** Exchanges the key for a token, which verifies the key. Access to the model is verified only by the first call. */
async function checkVertex(deps: CheckDeps, { provider, trust }: CloudModel, secret: Secret) {
  const account = parseServiceAccount(secret.serviceAccount ?? '')
  if (!account) return { ok: false, detail: 'The service account cannot be read.' }
  // The address is part of the credential, so the operator's trust does not apply to it.
  const tokenTrust = trust === 'operator' ? 'client' : trust
  return sendProbe(deps, { provider, ...buildTokenRequest(account), trust: tokenTrust, refusedStatus: 400 })
}

/** Lists the models of the resource. */
async function checkAzure(deps: CheckDeps, { provider, baseUrl, trust }: CloudModel, secret: Secret) {
  const { apiKey = '', apiVersion: version } = secret
  const resourceUrl = baseUrl.replace(/(\/openai)?(\/v1)?\/*$/, '')
  const path = version === undefined ? '/openai/v1/models' : `/openai/models?api-version=${version}`
  return sendProbe(deps, { provider, url: resourceUrl + path, headers: { 'api-key': apiKey }, trust })
}
