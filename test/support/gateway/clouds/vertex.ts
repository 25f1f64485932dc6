import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { ScriptInput } from '../../../../samples/provider/script.ts'
import { objectOf, parseObject, textOf } from '../../../../src/gateway/protocols/fields.ts'
import type { JsonObject } from '../../../../src/harnesses/json.ts'
import { type CloudDecision, type CloudRequest, type FakeCloud, relayUnchanged, startCloud } from './cloud-front.ts'

const EMAIL = 'assay@assay-test.iam.gserviceaccount.com'
export const VERTEX_BASE = '/v1/projects/assay-test/locations/us-east5'

const newKey = (): string =>
  generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()

const PRIVATE_KEY = newKey()
const OTHER_KEY = newKey()

/** Returns the key file of the only account, or one that Google does not accept. */
export const serviceAccount = (url: string, wrong: { key?: true; email?: true } = {}): string =>
  JSON.stringify({
    type: 'service_account',
    project_id: 'assay-test',
    private_key_id: 'canary0123456789abcdef',
    private_key: wrong.key ? OTHER_KEY : PRIVATE_KEY,
    client_email: wrong.email ? 'other@assay-test.iam.gserviceaccount.com' : EMAIL,
    token_uri: `${url}/token`,
  })

export type FakeVertex = FakeCloud & {
  /** Number of tokens that were issued. */
  countTokens(): number
  revokeTokens(): void
  /** Sets the lifetime of the next tokens. */
  setLifetime(seconds: number): void
  /** Makes the token service fail once. */
  failNextToken(status: number): void
}

/** Starts a fake of Google's token service and of Vertex AI with the publishers `google` and `anthropic`. */
export async function startVertex(script: ScriptInput): Promise<FakeVertex> {
  const issued = new Set<string>()
  let count = 0
  let lifetime = 3599
  let failure: number | undefined
  const issue = (): CloudDecision => {
    const token = `ya29.canary-${++count}-0123456789`
    issued.add(token)
    return { kind: 'answered', status: 200, body: { access_token: token, expires_in: lifetime, token_type: 'Bearer' } }
  }
  const takeFailure = (): CloudDecision | undefined => {
    const status = failure
    failure = undefined
    return status === undefined ? undefined : { kind: 'answered', status, body: { error: 'internal_failure' } }
  }
  const decide = (request: CloudRequest): CloudDecision => {
    if (request.path === '/token') return takeFailure() ?? findTokenError(request) ?? issue()
    const [, token = ''] = /^Bearer (.+)$/.exec(request.headers.authorization ?? '') ?? []
    if (!issued.has(token)) return refuse(401, 'UNAUTHENTICATED', token === '' ? MISSING : INVALID)
    return toModelRequest(request)
  }
  const cloud = await startCloud({ decide, relay }, script)
  return {
    ...cloud,
    countTokens: () => count,
    revokeTokens: () => issued.clear(),
    setLifetime(seconds) {
      lifetime = seconds
    },
    failNextToken(status) {
      failure = status
    },
  }
}

const MISSING =
  'Request is missing required authentication credential. Expected OAuth 2 access token, login cookie or other valid authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.'
const INVALID =
  'Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.'

const refuse = (code: number, status: string, message: string): CloudDecision => ({
  kind: 'answered',
  status: code,
  body: { error: { code, message, status } },
})

const refuseGrant = (description: string): CloudDecision => ({
  kind: 'answered',
  status: 400,
  body: { error: 'invalid_grant', error_description: description },
})

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'

function findTokenError({ headers, body }: CloudRequest): CloudDecision | undefined {
  const form = new URLSearchParams(body.toString())
  const assertion = form.get('assertion') ?? ''
  const [header = '', claims = '', signature = ''] = assertion.split('.')
  const isForm = headers['content-type'] === 'application/x-www-form-urlencoded'
  if (!isForm || form.get('grant_type') !== 'urn:ietf:params:oauth:grant-type:jwt-bearer')
    return { kind: 'answered', status: 400, body: { error: 'unsupported_grant_type' } }
  const { iss, aud, scope, iat, exp } = parsePart(claims)
  if (iss !== EMAIL) return refuseGrant('Invalid grant: account not found')
  const isSigned = verify(
    'RSA-SHA256',
    Buffer.from(`${header}.${claims}`),
    createPublicKey(PRIVATE_KEY),
    Buffer.from(signature, 'base64url'),
  )
  if (!isSigned || parsePart(header).alg !== 'RS256') return refuseGrant('Invalid JWT Signature.')
  const now = Date.now() / 1000
  const isTimely = Math.abs(Number(iat) - now) < 60 && Number(exp) > now && Number(exp) - Number(iat) <= 3600
  if (!isTimely || aud !== `http://${headers.host}/token` || scope !== SCOPE)
    return refuseGrant('Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.')
  return undefined
}

const parsePart = (text: string): JsonObject => parseObject(Buffer.from(text, 'base64url').toString()) ?? {}

const MODEL = new RegExp(`^${VERTEX_BASE}/publishers/(anthropic|google)/models/([^/:]+):(\\w+)$`)

function toModelRequest({ path, query, body }: CloudRequest): CloudDecision {
  const json = parseObject(body.toString()) ?? {}
  if (path === `${VERTEX_BASE}/endpoints/openapi/chat/completions`)
    return { kind: 'accepted', path: '/v1/chat/completions', body: json }
  const [, publisher, model = '', verb = ''] = MODEL.exec(decodeURIComponent(path)) ?? []
  if (publisher === undefined)
    return refuse(403, 'PERMISSION_DENIED', "Permission 'aiplatform.endpoints.predict' denied on resource.")
  if (publisher === 'google') {
    if (verb === 'streamGenerateContent' && query.get('alt') !== 'sse')
      return refuse(400, 'INVALID_ARGUMENT', 'This fake only streams with alt=sse.')
    return { kind: 'accepted', path: `/v1beta/models/${model}:${verb}`, body: json }
  }
  return toMessage(model, verb, json)
}

function toMessage(model: string, verb: string, body: JsonObject): CloudDecision {
  const { anthropic_version: version, ...message } = body
  const complaint = findComplaint(version === 'vertex-2023-10-16', verb, model, body)
  if (complaint !== undefined)
    return {
      kind: 'answered',
      status: 400,
      body: { type: 'error', error: { type: 'invalid_request_error', message: complaint } },
    }
  return model === 'count-tokens'
    ? { kind: 'answered', status: 200, body: { input_tokens: 7 } }
    : { kind: 'accepted', path: '/v1/messages', body: { ...message, model } }
}

function findComplaint(hasVersion: boolean, verb: string, model: string, body: JsonObject): string | undefined {
  if (!hasVersion) return 'anthropic_version: Field required'
  if ((model === 'count-tokens') !== (body.model !== undefined)) return 'model: Extra inputs are not permitted'
  const isStream = body.stream === true
  return verb === (isStream ? 'streamRawPredict' : 'rawPredict') ? undefined : `Unknown verb ${verb}`
}

const STATUSES: Record<number, string> = {
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
}

/** Google itself answers these statuses; other errors are those of the publisher. */
async function relay(answer: Response, response: ServerResponse): Promise<void> {
  const status = STATUSES[answer.status]
  if (status === undefined) return relayUnchanged(answer, response)
  const { error } = parseObject(await answer.text()) ?? {}
  const message = textOf(objectOf(error).message) ?? ''
  const body = JSON.stringify({ error: { code: answer.status, message, status } })
  response.writeHead(answer.status, { 'content-type': 'application/json; charset=UTF-8' }).end(body)
}
