import { derivedId } from '../platform/ids.ts'
import type { Trust } from '../platform/outbound/outbound.ts'
import { LOCAL } from '../workspaces/workspaces.ts'
import {
  acceptWithoutCheck,
  type CredentialProbe,
  type CredentialVariables,
  checkDocker,
  checkGithub,
  checkHarbor,
  sendProbe,
} from './checks.ts'
import { clouds } from './clouds.ts'
import { buildHint, type CredentialField, engineAddress, hostName, knownHosts, pem, sshKey, token } from './fields.ts'
import type { Cloud, Credential, CredentialKind } from './schema.ts'
import type { Secret } from './seal.ts'

export type ProviderDefinition = {
  kind: CredentialKind
  provider: string
  /** Fields of the secret. The hint is taken from the first; without fields nothing can be stored. */
  fields: CredentialField[]
  /** Environment variable of each field. */
  environment?: Record<string, string>
  /** Name of the built-in credential that every workspace has. */
  builtin?: string
  check: CredentialProbe
}

/** API of a model provider: its address and the headers of a key. */
type ModelApi = { provider: string; baseUrl: string; variable: string; path: string; headers: KeyHeaders }
type ProviderHeaders = Record<string, string>
type KeyHeaders = (key: string) => ProviderHeaders

export const buildBearerHeaders = (key: string): ProviderHeaders => ({ authorization: `Bearer ${key}` })

const modelApis: ModelApi[] = [
  {
    provider: 'anthropic',
    baseUrl: 'https://api.anthropic.com',
    variable: 'ANTHROPIC_API_KEY',
    path: '/v1/models?limit=1',
    headers: (key) => ({ 'x-api-key': key, 'anthropic-version': '2023-06-01' }),
  },
  {
    provider: 'openai',
    baseUrl: 'https://api.openai.com/v1',
    variable: 'OPENAI_API_KEY',
    path: '/models',
    headers: buildBearerHeaders,
  },
  {
    provider: 'gemini',
    baseUrl: 'https://generativelanguage.googleapis.com',
    variable: 'GEMINI_API_KEY',
    path: '/v1beta/models?pageSize=1',
    headers: (key) => ({ 'x-goog-api-key': key }),
  },
  {
    provider: 'openrouter',
    baseUrl: 'https://openrouter.ai/api/v1',
    variable: 'OPENROUTER_API_KEY',
    path: '/key', // The list of models needs no key, so it would not verify one.
    headers: buildBearerHeaders,
  },
  {
    provider: 'deepseek',
    baseUrl: 'https://api.deepseek.com',
    variable: 'DEEPSEEK_API_KEY',
    path: '/models',
    headers: buildBearerHeaders,
  },
  {
    provider: 'xai',
    baseUrl: 'https://api.x.ai/v1',
    variable: 'XAI_API_KEY',
    path: '/models',
    headers: buildBearerHeaders,
  },
  {
    provider: 'moonshot',
    baseUrl: 'https://api.moonshot.ai/v1',
    variable: 'MOONSHOT_API_KEY',
    path: '/models',
    headers: buildBearerHeaders,
  },
  {
    provider: 'zai',
    baseUrl: 'https://api.z.ai/api/paas/v4',
    variable: 'ZAI_API_KEY',
    path: '/models',
    headers: buildBearerHeaders,
  },
]

/** Finds the operator's address for a provider, which replaces its own. */
const findUpstream = (upstreams: Record<string, string>, provider: string): string | undefined =>
  upstreams[provider.toLowerCase().replaceAll(/[^a-z0-9]/g, '-')]

/**
 * Returns the address of a model provider: the operator's, else `baseUrl`, the address of a custom model, else the
 * provider's published one. `trust` applies to `baseUrl`.
 */
export function resolveUpstream(
  { provider, baseUrl }: { provider: string; baseUrl: string | null },
  upstreams: Record<string, string>,
  trust: Trust,
): { url: string; trust: Trust } {
  const configured = findUpstream(upstreams, provider)
  if (configured === undefined && baseUrl !== null) return { url: baseUrl, trust }
  const url = configured ?? modelApis.find((api) => api.provider === provider)?.baseUrl
  if (url === undefined) throw new Error(`Unknown model provider ${provider}.`)
  return { url, trust: 'operator' }
}

const createModelProvider = ({ provider, baseUrl, variable, path, headers }: ModelApi): ProviderDefinition => ({
  kind: 'model',
  provider,
  fields: [token('apiKey')],
  environment: { apiKey: variable },
  check: (deps, { apiKey = '' }) =>
    sendProbe(deps, {
      provider,
      url: `${findUpstream(deps.upstreams, provider) ?? baseUrl}${path}`,
      headers: headers(apiKey),
      trust: 'operator',
    }),
})

type CustomModelProvider = {
  provider: string
  model: string
  baseUrl: string
  cloud: Cloud | undefined
  path: string
  headers: KeyHeaders
  trust: Trust
}

/** Builds the provider of a custom model. `trust` applies to its address unless the operator has set another one. */
export const createCustomModelProvider = ({
  provider,
  cloud,
  path,
  headers,
  ...model
}: CustomModelProvider): ProviderDefinition => ({
  kind: 'model',
  provider,
  fields: cloud ? clouds[cloud].fields : [token('apiKey')],
  check: (deps, secret) => {
    const upstream = findUpstream(deps.upstreams, provider)
    const baseUrl = upstream ?? model.baseUrl
    const trust = upstream === undefined ? model.trust : 'operator'
    if (cloud) return clouds[cloud].check(deps, { provider, model: model.model, baseUrl, trust }, secret)
    const url = buildTargetUrl(baseUrl, path)
    return sendProbe(deps, { provider, url, headers: headers(secret.apiKey ?? ''), trust })
  },
})

/** All providers of credentials. A new one is one entry. */
export const providers: readonly ProviderDefinition[] = [
  ...modelApis.map(createModelProvider),
  {
    kind: 'model',
    provider: 'none',
    fields: [],
    builtin: 'Reference',
    check: acceptWithoutCheck('The reference solution needs no key.'),
  },
  {
    kind: 'sandbox',
    provider: 'docker',
    fields: [engineAddress('host'), pem('ca', 'certificate'), pem('cert', 'certificate'), pem('key', 'private key')],
    builtin: 'Docker engine of this server',
    check: checkDocker,
  },
  {
    kind: 'sandbox',
    provider: 'local',
    fields: [],
    builtin: 'This server',
    check: acceptWithoutCheck('There is no key to check. The list of sandboxes shows whether a worker has it now.'),
  },
  {
    kind: 'sandbox',
    provider: 'kubernetes',
    fields: [],
    builtin: 'Kubernetes cluster of this server',
    check: acceptWithoutCheck('There is no key to check. The list of sandboxes shows whether a worker has it now.'),
  },
  {
    kind: 'registry',
    provider: 'harbor',
    fields: [token('apiKey')],
    environment: { apiKey: 'HARBOR_API_KEY' },
    check: checkHarbor,
  },
  {
    kind: 'code-host',
    provider: 'github',
    fields: [token('token'), hostName('host')],
    environment: { token: 'GITHUB_TOKEN' },
    check: checkGithub,
  },
  {
    kind: 'code-host',
    provider: 'ssh',
    fields: [sshKey('privateKey'), knownHosts('knownHosts')],
    check: acceptWithoutCheck(
      'A key can only be tried with a repository: start a scan of one that is connected with it.',
    ),
  },
]

export const isStorable = ({ fields }: ProviderDefinition): boolean => fields.length > 0

/** Finds the secret of a model provider in the environment. */
export function findModelSecret(environment: CredentialVariables, name: string): Secret | undefined {
  const definition = findModelProvider(name)
  return definition && findSecret(environment, definition)
}

export const findModelKeyVariable = (name: string): string | undefined => findModelProvider(name)?.environment?.apiKey

function findModelProvider(name: string): ProviderDefinition | undefined {
  return providers.find(({ kind, provider }) => kind === 'model' && provider === name)
}

/** Finds a provider's secret in the environment. Returns undefined if a required field is missing. */
function findSecret(environment: CredentialVariables, provider: ProviderDefinition): Secret | undefined {
  const secret: Secret = {}
  for (const [field, variable] of Object.entries(provider.environment ?? {})) {
    const value = environment[variable]?.trim()
    if (value) secret[field] = value
  }
  const isComplete = provider.fields.every(({ name, required }) => !required || secret[name] !== undefined)
  return isStorable(provider) && isComplete ? secret : undefined
}

/**
 * Joins a base URL and the path of a protocol. A version in the base (`…/v1`, `…/v1beta/openai`) replaces the version of
 * the path.
 */
export function buildTargetUrl(baseUrl: string, path: string): string {
  const base = baseUrl.replace(/\/+$/, '')
  const hasVersion = new URL(base).pathname.split('/').some((part) => VERSION_PART.test(part))
  return base + (hasVersion ? path.replace(/^\/[^/]+/, '') : path)
}

/** Matches a version in a path, such as `v1` or `v1beta`. */
const VERSION_PART = /^v\d+(alpha|beta)?\d*$/

export type CredentialOwner = { id: string; login: string; createdAt: Date }

/** A credential of the environment or a built-in one, with its secret. */
export type DerivedCredential = { credential: Credential; secret: Secret }

/** Lists the credentials that a workspace has without storing any: built-in ones and those of the server's environment. */
export function listDerivedCredentials(
  owner: CredentialOwner,
  environment: CredentialVariables,
  hasStorage: boolean,
): DerivedCredential[] {
  // The server's keys belong to its operator. Other workspaces use them only if no workspace can store keys.
  const seesEnvironment = !hasStorage || owner.login.toLowerCase() === LOCAL
  return providers.flatMap((provider) => {
    const secret = seesEnvironment ? findSecret(environment, provider) : undefined
    return [
      ...(provider.builtin
        ? [toDerivedCredential(owner, provider, { source: 'builtin', name: provider.builtin, secret: {} })]
        : []),
      ...(secret
        ? [toDerivedCredential(owner, provider, { source: 'environment', name: toVariableName(provider), secret })]
        : []),
    ]
  })
}

type DerivedSource = { source: 'builtin' | 'environment'; name: string; secret: Secret }

const toDerivedCredential = (
  owner: CredentialOwner,
  { kind, provider, fields }: ProviderDefinition,
  { source, name, secret }: DerivedSource,
): DerivedCredential => ({
  secret,
  credential: {
    id: derivedId(owner.id, source, kind, provider),
    kind,
    provider,
    name,
    source,
    hint: buildHint(fields, secret),
    createdAt: owner.createdAt.toISOString(),
    lastUsedAt: null,
  },
})

const toVariableName = ({ environment, provider }: ProviderDefinition): string =>
  Object.values(environment ?? {})[0] ?? provider
