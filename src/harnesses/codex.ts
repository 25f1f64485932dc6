import { arch } from 'node:process'
import { stringify } from 'smol-toml'
import { BUNDLE, nativeBundle } from './bundles/bundle.ts'
import lock from './bundles/codex.lock.json' with { type: 'json' }
import { type Harness, HarnessUnfit, HOME, requireModelAccess, type ToolServer, toEnv } from './harness.ts'
import { type JsonObject, objectAt, objectsAt, textAt } from './json.ts'
import { findProtocol, type ModelAccess } from './model-access.ts'
import type { TrajectoryEvent } from './trajectory.ts'

const MACHINES: Record<string, string> = { x64: 'x86_64', arm64: 'aarch64' }
const VENDOR = `program/vendor/${MACHINES[arch] ?? arch}-unknown-linux-musl`
const PROGRAM = `${VENDOR}/bin/codex`
const CONFIG = '.codex'
const PROVIDER = 'assay'
const TOKEN_VARIABLE = 'ASSAY_MODEL_TOKEN'
/** Timeout of a silent stream. The gateway sends keep-alives, so a longer silence means a lost connection. */
const STREAM_IDLE_TIMEOUT_MS = 10 * 60_000

export const codex: Harness = {
  id: 'codex',
  name: 'Codex',
  version: lock.version,
  protocols: ['openai-responses'],
  bundle: nativeBundle('codex', lock, PROGRAM),
  auxiliaryModels: [],
  supportsMcp: true,
  allowedArguments: [
    {
      flag: '--config',
      value: /^(project_doc_max_bytes=[1-9]\d{0,8}|model_verbosity="(low|medium|high)")$/,
      example: '--config=project_doc_max_bytes=<number>, --config=model_verbosity="<low|medium|high>"',
    },
  ],
  protocolFor: (model, _level, wire) => findProtocol(SUPPORTED_LEVELS, codex.protocols, model, wire),
  plan({ instruction }, { mcpServers }, optionalAccess) {
    const access = requireModelAccess(codex, optionalAccess)
    return {
      command: [
        ...[`${BUNDLE}/${PROGRAM}`, 'exec', '--json', '--skip-git-repo-check'],
        ...['--dangerously-bypass-approvals-and-sandbox', '--disable', 'plugins', '-m', access.model, '-'],
      ],
      env: toEnv({ CODEX_HOME: `${HOME}/${CONFIG}`, [TOKEN_VARIABLE]: access.token }),
      folders: [],
      files: [{ path: `${CONFIG}/config.toml`, text: stringify(buildSettings(access, mcpServers)) }],
      skills: `${CONFIG}/skills`,
      input: instruction,
    }
  },
  trajectoryEvents,
}

/** Codex forwards every effort unchanged. */
const SUPPORTED_LEVELS = { 'openai-responses': { efforts: 'any', budgets: false, off: false, unset: false } } as const

const buildSettings = ({ baseUrl, wireLevel }: ModelAccess, servers: ToolServer[]) => ({
  model_provider: PROVIDER,
  ...('effort' in wireLevel ? { model_reasoning_effort: wireLevel.effort } : {}),
  check_for_update_on_startup: false,
  web_search: 'disabled',
  model_providers: {
    [PROVIDER]: {
      name: PROVIDER,
      base_url: `${baseUrl}/v1`,
      env_key: TOKEN_VARIABLE,
      wire_api: 'responses',
      request_max_retries: 4,
      stream_max_retries: 5,
      stream_idle_timeout_ms: STREAM_IDLE_TIMEOUT_MS,
    },
  },
  analytics: { enabled: false },
  feedback: { enabled: false },
  ...(servers.length > 0 ? { mcp_servers: Object.fromEntries(servers.map(toServerEntry)) } : {}),
})

function toServerEntry(server: ToolServer): [string, object] {
  if (server.transport === 'stdio') return [server.name, { command: server.command, args: server.args }]
  if (server.transport === 'sse') {
    throw new HarnessUnfit(`Codex does not support SSE, which the task's MCP server ${server.name} uses.`)
  }
  return [server.name, { url: server.url, http_headers: server.headers }]
}

function trajectoryEvents(line: JsonObject): TrajectoryEvent[] {
  if (line.type === 'turn.started') return [{ kind: 'turn' }]
  if (line.type !== 'item.completed') return []
  const item = objectAt(line, 'item')
  const id = textAt(item, 'id')
  switch (textAt(item, 'type')) {
    case 'agent_message':
      return [{ kind: 'message', text: textAt(item, 'text') }]
    case 'reasoning':
      return [{ kind: 'thought', text: textAt(item, 'text') }]
    case 'command_execution':
      return [
        { kind: 'call', id, name: 'shell', arguments: { command: textAt(item, 'command') } },
        { kind: 'result', id, text: textAt(item, 'aggregated_output') },
      ]
    case 'file_change':
      return [{ kind: 'call', id, name: 'apply_patch', arguments: { changes: objectsAt(item, 'changes') } }]
    case 'mcp_tool_call':
      return [{ kind: 'call', id, name: textAt(item, 'tool'), arguments: objectAt(item, 'arguments') }]
    default:
      return []
  }
}
