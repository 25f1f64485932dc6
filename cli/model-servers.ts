import { PROTOCOLS } from '../src/harnesses/model-access.ts'
import { WrongUse } from './failure.ts'
import type { Shell } from './shell.ts'

/** Default addresses of model servers, by the prefix that names them in --model. */
const DEFAULT_ADDRESSES: Record<string, string> = {
  ollama: 'http://127.0.0.1:11434/v1',
  lmstudio: 'http://127.0.0.1:1234/v1',
  llamacpp: 'http://127.0.0.1:8080/v1',
  vllm: 'http://127.0.0.1:8000/v1',
}

export type ServerFlags = { baseUrl?: string; protocol?: string; keyEnv?: string }

/** A model server, and the model to call there. */
export type NamedServer = {
  /** Name of the model on the server. */
  name: string
  baseUrl: string
  protocol: (typeof PROTOCOLS)[number]
  apiKey: string | undefined
}

export const SERVER_OPTIONS = [
  ['--base-url <url>', 'Address of the model server; --model is then the name of the model there'],
  ['--protocol <protocol>', 'Protocol of the server (default: openai-chat)'],
  ['--key-env <variable>', 'Variable with the key of the server (default: none)'],
] as const

/**
 * Returns the server of a model that is given by flags or by a prefix such as `ollama/` in `ollama/qwen3`. Undefined
 * for other models.
 */
export function findServer({ env }: Shell, model: string, flags: ServerFlags): NamedServer | undefined {
  const prefixed = findServerByPrefix(model)
  const baseUrl = flags.baseUrl ?? prefixed?.baseUrl
  if (baseUrl === undefined) {
    if (flags.protocol === undefined && flags.keyEnv === undefined) return undefined
    throw new WrongUse('--protocol and --key-env can only be used with --base-url.')
  }
  requireUrl(baseUrl)
  const name = flags.baseUrl === undefined ? (prefixed?.name ?? model) : model
  return { name, baseUrl, protocol: parseProtocol(flags.protocol), apiKey: readKey(env, flags.keyEnv) }
}

function findServerByPrefix(model: string): { name: string; baseUrl: string } | undefined {
  const [prefix = '', ...rest] = model.split('/')
  const baseUrl = Object.hasOwn(DEFAULT_ADDRESSES, prefix) ? DEFAULT_ADDRESSES[prefix] : undefined
  return baseUrl === undefined || rest.length === 0 ? undefined : { name: rest.join('/'), baseUrl }
}

function requireUrl(baseUrl: string): void {
  if (/^https?:\/\//.test(baseUrl) && URL.canParse(baseUrl)) return
  throw new WrongUse('--base-url must be an http or https URL, for example http://127.0.0.1:11434/v1.')
}

function parseProtocol(text = 'openai-chat'): NamedServer['protocol'] {
  const protocol = PROTOCOLS.find((each) => each === text)
  if (protocol) return protocol
  throw new WrongUse(`Unknown protocol ${text}. Available: ${PROTOCOLS.join(', ')}.`)
}

function readKey(env: Shell['env'], variable: string | undefined): string | undefined {
  if (variable === undefined) return undefined
  const key = env[variable]
  if (key) return key
  throw new WrongUse(`The variable ${variable} in --key-env is not set.`)
}
