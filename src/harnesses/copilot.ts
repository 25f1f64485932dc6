import { rootCertificates } from 'node:tls'
import { nativeBundle } from './bundles/bundle.ts'
import lock from './bundles/copilot.lock.json' with { type: 'json' }
import { envOf, type Harness, HOME, requireAccess, type ToolServer } from './harness.ts'
import { type JsonObject, objectAt, objectsAt, textAt } from './json.ts'
import { sayableIn, type Vocabularies } from './levels.ts'
import type { ModelAccess, Protocol, WireLevel } from './model-access.ts'
import type { Moment } from './trajectory.ts'

const PROGRAM = 'program/copilot'
const CONFIG = '.copilot'
const SERVERS = `${CONFIG}/assay-mcp.json`

export const copilot: Harness = {
  id: 'copilot',
  name: 'Copilot CLI',
  version: lock.version,
  protocols: ['anthropic-messages', 'openai-responses', 'openai-chat'],
  bundle: nativeBundle('copilot', lock, PROGRAM),
  helpers: [],
  protocolFor: (model, _level, wire) => sayableIn(VOCABULARIES, copilot.protocols, model, wire),
  plan({ instruction }, { mcpServers }, given) {
    const access = requireAccess(copilot, given)
    const servers = mcpServers.length > 0 ? ['--additional-mcp-config', `@${HOME}/${SERVERS}`] : []
    return {
      command: [
        ...['sh', '-c', WITH_ROOTS, `${HOME}/${ROOTS}`],
        ...[`/assay/bundle/${PROGRAM}`, '--yolo', '--no-ask-user', '--no-auto-update', '--output-format', 'json'],
        ...['--disable-builtin-mcps', '--log-dir', `${HOME}/logs`, '--reasoning-effort', wordFor(access.wireLevel)],
        ...servers,
      ],
      env: envOf(variables(access)),
      folders: [],
      files: [
        { path: ROOTS, text: rootCertificates.join('\n') },
        ...(mcpServers.length > 0 ? [{ path: SERVERS, text: JSON.stringify(serversOf(mcpServers)) }] : []),
      ],
      skills: `${CONFIG}/skills`,
      input: instruction,
    }
  },
  moments,
}

/** It wants some certificates to trust, also where it uses none. A small image has none. */
const ROOTS = `${CONFIG}/roots.pem`
const WITH_ROOTS =
  '[ -s /etc/ssl/certs/ca-certificates.crt ] || [ -s /etc/pki/tls/certs/ca-bundle.crt ] || export SSL_CERT_FILE="$0"; exec "$@"'

const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max']
const NOTHING = { efforts: EFFORTS, budgets: false, off: false, silence: false }
const VOCABULARIES: Vocabularies = {
  'anthropic-messages': { ...NOTHING, off: true },
  'openai-responses': { ...NOTHING, efforts: ['none', ...EFFORTS] },
  // Here its word for none is to say nothing.
  'openai-chat': { ...NOTHING, silence: true },
}

const wordFor = (wire: WireLevel): string => ('effort' in wire ? wire.effort : 'none')

const PROVIDERS: Record<Exclude<Protocol, 'gemini'>, Record<string, string>> = {
  'anthropic-messages': { COPILOT_PROVIDER_TYPE: 'anthropic' },
  'openai-responses': { COPILOT_PROVIDER_TYPE: 'openai', COPILOT_PROVIDER_WIRE_API: 'responses' },
  'openai-chat': { COPILOT_PROVIDER_TYPE: 'openai' },
}

function variables({ protocol, baseUrl, token, model }: ModelAccess): Record<string, string> {
  return {
    // Without it, it asks its makers for leave.
    COPILOT_OFFLINE: 'true',
    COPILOT_AUTO_UPDATE: 'false',
    COPILOT_HOME: `${HOME}/${CONFIG}`,
    COPILOT_MODEL: model,
    COPILOT_PROVIDER_API_KEY: token,
    COPILOT_PROVIDER_BASE_URL: protocol === 'anthropic-messages' ? baseUrl : `${baseUrl}/v1`,
    ...(protocol === 'gemini' ? {} : PROVIDERS[protocol]),
  }
}

const serversOf = (servers: ToolServer[]): JsonObject => ({ mcpServers: Object.fromEntries(servers.map(serverOf)) })

function serverOf(server: ToolServer): [string, JsonObject] {
  if (server.transport === 'stdio') {
    return [server.name, { type: 'local', command: server.command, args: server.args, tools: ['*'] }]
  }
  const type = server.transport === 'sse' ? 'sse' : 'http'
  return [server.name, { type, url: server.url, headers: server.headers, tools: ['*'] }]
}

function moments(line: JsonObject): Moment[] {
  const data = objectAt(line, 'data')
  if (line.type === 'assistant.reasoning') return [{ kind: 'thought', text: textAt(data, 'content') }]
  if (line.type === 'tool.execution_complete') {
    return [{ kind: 'result', id: textAt(data, 'toolCallId'), text: textAt(objectAt(data, 'result'), 'content') }]
  }
  if (line.type !== 'assistant.message') return []
  const calls = objectsAt(data, 'toolRequests').map(
    (call): Moment => ({
      ...{ kind: 'call', id: textAt(call, 'toolCallId'), name: textAt(call, 'name') },
      arguments: objectAt(call, 'arguments'),
    }),
  )
  return [{ kind: 'message', text: textAt(data, 'content') }, ...calls]
}
