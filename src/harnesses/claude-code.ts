import { BUNDLE, nativeBundle } from './bundles/bundle.ts'
import lock from './bundles/claude-code.lock.json' with { type: 'json' }
import { type Harness, HOME, requireModelAccess, type ToolServer, toEnv } from './harness.ts'
import { type JsonObject, objectAt, objectsAt, textAt } from './json.ts'
import { findProtocol, type ModelAccess, type WireLevel } from './model-access.ts'
import type { TrajectoryEvent } from './trajectory.ts'

const PROGRAM = 'program/claude'
const CONFIG = '.claude'
const SERVERS = `${CONFIG}/assay-mcp.json`
/** Server-side tools, which run outside the sandbox, and questions to a user, who does not exist. */
const DISALLOWED_TOOLS = 'WebSearch,WebFetch,AskUserQuestion'
/** Maximum number of retries of a model call. It is low, because the gateway retries too. */
const RETRIES_MAX = '3'
const API_TIMEOUT_MS = String(30 * 60_000)

export const claudeCode: Harness = {
  id: 'claude-code',
  name: 'Claude Code',
  version: lock.version,
  protocols: ['anthropic-messages'],
  bundle: nativeBundle('claude-code', lock, PROGRAM),
  auxiliaryModels: [],
  supportsMcp: true,
  allowedArguments: [
    { flag: '--append-system-prompt', value: /\S/, example: '--append-system-prompt=<text>' },
    { flag: '--max-turns', value: /^[1-9]\d{0,5}$/, example: '--max-turns=<number>' },
  ],
  protocolFor: (model, _level, wire) => findProtocol(SUPPORTED_LEVELS, claudeCode.protocols, model, wire),
  plan({ instruction }, { mcpServers }, optionalAccess) {
    const access = requireModelAccess(claudeCode, optionalAccess)
    const { model, wireLevel } = access
    const servers = mcpServers.length > 0 ? ['--mcp-config', `${HOME}/${SERVERS}`] : []
    return {
      command: [
        ...[`${BUNDLE}/${PROGRAM}`, '-p', '--output-format', 'stream-json', '--verbose'],
        ...['--permission-mode', 'bypassPermissions', '--model', model, '--disallowedTools', DISALLOWED_TOOLS],
        ...('effort' in wireLevel ? ['--effort', wireLevel.effort] : []),
        ...['--strict-mcp-config', ...servers],
      ],
      env: toEnv(buildVariables(access)),
      folders: [],
      files: [
        { path: `${CONFIG}/settings.json`, text: '{}' },
        ...(mcpServers.length > 0
          ? [{ path: SERVERS, text: JSON.stringify({ mcpServers: toServers(mcpServers) }) }]
          : []),
      ],
      skills: `${CONFIG}/skills`,
      input: instruction,
    }
  },
  trajectoryEvents: parseStreamJson,
}

/** Claude Code always sends a thinking parameter, so a level without one is not supported. */
const SUPPORTED_LEVELS = {
  'anthropic-messages': {
    efforts: ['low', 'medium', 'high', 'xhigh', 'max'],
    budgets: true,
    off: true,
    unset: false,
  },
} as const

function buildVariables({ baseUrl, token, model, wireLevel }: ModelAccess): Record<string, string> {
  return {
    ANTHROPIC_BASE_URL: baseUrl,
    ANTHROPIC_API_KEY: token,
    // The program refuses to run as root unless this variable is set.
    IS_SANDBOX: '1',
    CLAUDE_CONFIG_DIR: `${HOME}/${CONFIG}`,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    DISABLE_TELEMETRY: '1',
    DISABLE_ERROR_REPORTING: '1',
    // Every model alias, including those of subagents, maps to the trial's model.
    ANTHROPIC_DEFAULT_OPUS_MODEL: model,
    ANTHROPIC_DEFAULT_SONNET_MODEL: model,
    ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
    ANTHROPIC_SMALL_FAST_MODEL: model,
    CLAUDE_CODE_SUBAGENT_MODEL: model,
    CLAUDE_CODE_MAX_RETRIES: RETRIES_MAX,
    API_TIMEOUT_MS: API_TIMEOUT_MS,
    // Otherwise the program may start before the task's MCP servers are connected.
    MCP_CONNECTION_NONBLOCKING: 'false',
    ...toThinkingVariables(wireLevel),
  }
}

function toThinkingVariables(wire: WireLevel): Record<string, string> {
  if ('budgetTokens' in wire) return { MAX_THINKING_TOKENS: String(wire.budgetTokens) }
  return 'off' in wire ? { MAX_THINKING_TOKENS: '0' } : {}
}

const toServers = (servers: ToolServer[]): JsonObject =>
  Object.fromEntries(
    servers.map((server) => [
      server.name,
      server.transport === 'stdio'
        ? { type: 'stdio', command: server.command, args: server.args }
        : { type: server.transport === 'sse' ? 'sse' : 'http', url: server.url, headers: server.headers },
    ]),
  )

/** Parses a line of the format `--output-format stream-json`, which several programs share. */
export function parseStreamJson(line: JsonObject): TrajectoryEvent[] {
  const parts = objectsAt(objectAt(line, 'message'), 'content')
  if (line.type === 'assistant') return parts.flatMap(parseAssistantPart)
  return line.type === 'user' ? parts.flatMap(parseUserPart) : []
}

function parseAssistantPart(part: JsonObject): TrajectoryEvent[] {
  if (part.type === 'text') return [{ kind: 'message', text: textAt(part, 'text') }]
  if (part.type === 'thinking') return [{ kind: 'thought', text: textAt(part, 'thinking') }]
  if (part.type !== 'tool_use') return []
  return [{ kind: 'call', id: textAt(part, 'id'), name: textAt(part, 'name'), arguments: objectAt(part, 'input') }]
}

function parseUserPart(part: JsonObject): TrajectoryEvent[] {
  if (part.type !== 'tool_result') return []
  const text =
    textAt(part, 'content') ||
    objectsAt(part, 'content')
      .map((each) => textAt(each, 'text'))
      .join('')
  return [{ kind: 'result', id: textAt(part, 'tool_use_id'), text }]
}
