import { ask, type Check, checkDocker, checkGithub, checkHarbor, type Environment, nothingToCheck } from './checks.ts'
import { engineAddress, type Field, hostName, pem, token } from './fields.ts'
import type { Kind } from './schema.ts'
import type { Secret } from './seal.ts'
import { targetUrl } from './target.ts'

export type Provider = {
  kind: Kind
  provider: string
  /** The hint is taken from the first. None: it cannot be stored. */
  fields: Field[]
  /** Which variable of the server's environment stands for which field. */
  environment?: Record<string, string>
  /** The name under which every workspace has it without storing anything. */
  builtin?: string
  check: Check
}

/** Where the API of a model provider is, and what a key is sent in. */
type ModelApi = { provider: string; baseUrl: string; variable: string; path: string; headers: KeyHeaders }
type Headers = Record<string, string>
type KeyHeaders = (key: string) => Headers

const bearer = (key: string): Headers => ({ authorization: `Bearer ${key}` })

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
    headers: bearer,
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
    path: '/key', // its list of models is open to everyone
    headers: bearer,
  },
  {
    provider: 'deepseek',
    baseUrl: 'https://api.deepseek.com',
    variable: 'DEEPSEEK_API_KEY',
    path: '/models',
    headers: bearer,
  },
  { provider: 'xai', baseUrl: 'https://api.x.ai/v1', variable: 'XAI_API_KEY', path: '/models', headers: bearer },
  {
    provider: 'moonshot',
    baseUrl: 'https://api.moonshot.ai/v1',
    variable: 'MOONSHOT_API_KEY',
    path: '/models',
    headers: bearer,
  },
  {
    provider: 'zai',
    baseUrl: 'https://api.z.ai/api/paas/v4',
    variable: 'ZAI_API_KEY',
    path: '/models',
    headers: bearer,
  },
]

/** Where a model provider of everybody's is. The operator may have put another address in its place. */
export const findModelUrl = (provider: string): string | undefined =>
  modelApis.find((api) => api.provider === provider)?.baseUrl

/** The address that the operator has put in the place of a provider's own, if any. */
export const findUpstream = (upstreams: Record<string, string>, provider: string): string | undefined =>
  upstreams[provider.toLowerCase().replaceAll(/[^a-z0-9]/g, '-')]

const modelProvider = ({ provider, baseUrl, variable, path, headers }: ModelApi): Provider => ({
  kind: 'model',
  provider,
  fields: [token('apiKey')],
  environment: { apiKey: variable },
  check: (tools, { apiKey = '' }) =>
    ask(tools, {
      provider,
      url: `${findUpstream(tools.upstreams, provider) ?? baseUrl}${path}`,
      headers: headers(apiKey),
      trust: 'operator',
    }),
})

type OwnModel = { provider: string; baseUrl: string; path: string; headers: KeyHeaders }

/** A model that a workspace has added is its own provider. Its address came from a client, unless the operator named it. */
export const ownModelProvider = ({ provider, baseUrl, path, headers }: OwnModel): Provider => ({
  kind: 'model',
  provider,
  fields: [token('apiKey')],
  check: (tools, { apiKey = '' }) => {
    const upstream = findUpstream(tools.upstreams, provider)
    const trust = upstream === undefined ? 'client' : 'operator'
    return ask(tools, { provider, url: targetUrl(upstream ?? baseUrl, path), headers: headers(apiKey), trust })
  },
})

/** Everyone whose credentials we can keep or derive. Adding one is adding a row. */
export const providers: readonly Provider[] = [
  ...modelApis.map(modelProvider),
  {
    kind: 'model',
    provider: 'none',
    fields: [],
    builtin: 'Reference',
    check: nothingToCheck('The reference needs no key.'),
  },
  {
    kind: 'sandbox',
    provider: 'docker',
    fields: [engineAddress('host'), pem('ca', false), pem('cert', false), pem('key', true)],
    builtin: 'Docker engine of this server',
    check: checkDocker,
  },
  {
    kind: 'sandbox',
    provider: 'local',
    fields: [],
    builtin: 'This server',
    check: nothingToCheck('There is no key to check. Whether a worker offers it now is shown with the sandboxes.'),
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
]

export const isStorable = ({ fields }: Provider): boolean => fields.length > 0

/** The same for a provider of models, by its name. */
export function modelSecretIn(environment: Environment, name: string): Secret | undefined {
  const found = namedModelProvider(name)
  return found && secretIn(environment, found)
}

/** Where a key for its models is looked for in the environment. */
export const modelKeyVariable = (name: string): string | undefined => namedModelProvider(name)?.environment?.apiKey

function namedModelProvider(name: string): Provider | undefined {
  return providers.find(({ kind, provider }) => kind === 'model' && provider === name)
}

/** The secret that the server's environment holds for a provider, if it holds all that is required. */
export function secretIn(environment: Environment, provider: Provider): Secret | undefined {
  const secret: Secret = {}
  for (const [field, variable] of Object.entries(provider.environment ?? {})) {
    const value = environment[variable]?.trim()
    if (value) secret[field] = value
  }
  const isComplete = provider.fields.every(({ name, required }) => !required || secret[name] !== undefined)
  return isStorable(provider) && isComplete ? secret : undefined
}
