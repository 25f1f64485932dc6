import { rootCertificates } from 'node:tls'
import { BUNDLE, nativeBundle } from './bundles/bundle.ts'
import lock from './bundles/copilot.lock.json' with { type: 'json' }
import { type Harness, HOME, requireModelAccess, type ToolServer, toEnv } from './harness.ts'
import { type JsonObject, objectAt, objectsAt, textAt } from './json.ts'
import { findProtocol, type LevelMapping, type ModelAccess, type Protocol, type WireLevel } from './model-access.ts'
import type { TrajectoryEvent } from './trajectory.ts'

const PROGRAM = 'program/copilot'
const CONFIG = '.copilot'
const SERVERS = `${CONFIG}/assay-mcp.json`

export const copilot: Harness = {
  id: 'copilot',
  name: 'Copilot CLI',
  version: lock.version,
  protocols: ['anthropic-messages', 'openai-responses', 'openai-chat'],
  bundle: nativeBundle('copilot', lock, PROGRAM),
  auxiliaryModels: [],
  supportsMcp: true,
  protocolFor: (model, _level, wire) => findProtocol(SUPPORTED_LEVELS, copilot.protocols, model, wire),
  plan({ instruction }, { mcpServers }, optionalAccess) {
    const access = requireModelAccess(copilot, optionalAccess)
    const servers = mcpServers.length > 0 ? ['--additional-mcp-config', `@${HOME}/${SERVERS}`] : []
    return {
      command: [
        ...['sh', '-c', RUN_WITH_CERTIFICATES, `${HOME}/${CERTIFICATES}`],
        ...[`${BUNDLE}/${PROGRAM}`, '--yolo', '--no-ask-user', '--no-auto-update', '--output-format', 'json'],
        ...['--disable-builtin-mcps', '--log-dir', `${HOME}/logs`, '--reasoning-effort', toEffort(access.wireLevel)],
        ...servers,
      ],
      env: toEnv(buildVariables(access)),
      folders: [],
      files: [
        { path: CERTIFICATES, text: rootCertificates.join('\n') },
        ...(mcpServers.length > 0 ? [{ path: SERVERS, text: JSON.stringify(toServers(mcpServers)) }] : []),
      ],
      skills: `${CONFIG}/skills`,
      input: instruction,
    }
  },
  trajectoryEvents,
}

/** Root certificates, for images that have none: the program does not start without them, even if it uses no TLS. */
const CERTIFICATES = `${CONFIG}/roots.pem`
const RUN_WITH_CERTIFICATES =
  '[ -s /etc/ssl/certs/ca-certificates.crt ] || [ -s /etc/pki/tls/certs/ca-bundle.crt ] || export SSL_CERT_FILE="$0"; exec "$@"'

const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max']
const EFFORTS_ONLY = { efforts: EFFORTS, budgets: false, off: false, unset: false }
const SUPPORTED_LEVELS: LevelMapping = {
  'anthropic-messages': { ...EFFORTS_ONLY, off: true },
  'openai-responses': { ...EFFORTS_ONLY, efforts: ['none', ...EFFORTS] },
  // The program omits the parameter for the effort `none` in this protocol.
  'openai-chat': { ...EFFORTS_ONLY, unset: true },
}

const toEffort = (wire: WireLevel): string => ('effort' in wire ? wire.effort : 'none')

const PROVIDERS: Record<Exclude<Protocol, 'gemini'>, Record<string, string>> = {
  'anthropic-messages': { COPILOT_PROVIDER_TYPE: 'anthropic' },
  'openai-responses': { COPILOT_PROVIDER_TYPE: 'openai', COPILOT_PROVIDER_WIRE_API: 'responses' },
  'openai-chat': { COPILOT_PROVIDER_TYPE: 'openai' },
}

function buildVariables({ protocol, baseUrl, token, model }: ModelAccess): Record<string, string> {
  return {
    // The program contacts GitHub for authorization unless this variable is set.
    COPILOT_OFFLINE: 'true',
    COPILOT_AUTO_UPDATE: 'false',
    COPILOT_HOME: `${HOME}/${CONFIG}`,
    COPILOT_MODEL: model,
    COPILOT_PROVIDER_API_KEY: token,
    COPILOT_PROVIDER_BASE_URL: protocol === 'anthropic-messages' ? baseUrl : `${baseUrl}/v1`,
    ...(protocol === 'gemini' ? {} : PROVIDERS[protocol]),
  }
}

const toServers = (servers: ToolServer[]): JsonObject => ({
  mcpServers: Object.fromEntries(servers.map(toServerEntry)),
})

function toServerEntry(server: ToolServer): [string, JsonObject] {
  if (server.transport === 'stdio') {
    return [server.name, { type: 'local', command: server.command, args: server.args, tools: ['*'] }]
  }
  const type = server.transport === 'sse' ? 'sse' : 'http'
  return [server.name, { type, url: server.url, headers: server.headers, tools: ['*'] }]
}

function trajectoryEvents(line: JsonObject): TrajectoryEvent[] {
  const data = objectAt(line, 'data')
  if (line.type === 'assistant.reasoning') return [{ kind: 'thought', text: textAt(data, 'content') }]
  if (line.type === 'tool.execution_complete') {
    return [{ kind: 'result', id: textAt(data, 'toolCallId'), text: textAt(objectAt(data, 'result'), 'content') }]
  }
  if (line.type !== 'assistant.message') return []
  const calls = objectsAt(data, 'toolRequests').map(
    (call): TrajectoryEvent => ({
      kind: 'call',
      id: textAt(call, 'toolCallId'),
      name: textAt(call, 'name'),
      arguments: objectAt(call, 'arguments'),
    }),
  )
  return [{ kind: 'message', text: textAt(data, 'content') }, ...calls]
}
