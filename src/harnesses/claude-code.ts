import { nativeBundle } from './bundles/bundle.ts'
import lock from './bundles/claude-code.lock.json' with { type: 'json' }
import { envOf, type Harness, HOME, requireAccess, type ToolServer } from './harness.ts'
import type { JsonObject } from './json.ts'
import { sayableIn } from './levels.ts'
import type { ModelAccess, WireLevel } from './model-access.ts'
import { streamJsonMoments } from './stream-json.ts'

const PROGRAM = 'program/claude'
const CONFIG = '.claude'
const SERVERS = `${CONFIG}/assay-mcp.json`
/** What the provider's own tools would do outside of the sandbox, and asking a person who is not there. */
const NO_TOOLS = 'WebSearch,WebFetch,AskUserQuestion'
/** The gateway waits for what is worth waiting for. */
const RETRIES = '3'
const ANSWER_MS = String(30 * 60_000)

export const claudeCode: Harness = {
  id: 'claude-code',
  name: 'Claude Code',
  version: lock.version,
  protocols: ['anthropic-messages'],
  bundle: nativeBundle('claude-code', lock, PROGRAM),
  helpers: [],
  protocolFor: (model, _level, wire) => sayableIn(VOCABULARY, claudeCode.protocols, model, wire),
  plan({ instruction }, { mcpServers }, given) {
    const access = requireAccess(claudeCode, given)
    const { model, wireLevel } = access
    const servers = mcpServers.length > 0 ? ['--mcp-config', `${HOME}/${SERVERS}`] : []
    return {
      command: [
        ...[`/assay/bundle/${PROGRAM}`, '-p', '--output-format', 'stream-json', '--verbose'],
        ...['--permission-mode', 'bypassPermissions', '--model', model, '--disallowedTools', NO_TOOLS],
        ...('effort' in wireLevel ? ['--effort', wireLevel.effort] : []),
        ...['--strict-mcp-config', ...servers],
      ],
      env: envOf(variables(access)),
      folders: [],
      files: [
        { path: `${CONFIG}/settings.json`, text: '{}' },
        ...(mcpServers.length > 0
          ? [{ path: SERVERS, text: JSON.stringify({ mcpServers: serversOf(mcpServers) }) }]
          : []),
      ],
      skills: `${CONFIG}/skills`,
      input: instruction,
    }
  },
  moments: streamJsonMoments,
}

/** It always says how a model is to think. */
const VOCABULARY = {
  'anthropic-messages': {
    efforts: ['low', 'medium', 'high', 'xhigh', 'max'],
    budgets: true,
    off: true,
    silence: false,
  },
} as const

function variables({ baseUrl, token, model, wireLevel }: ModelAccess): Record<string, string> {
  return {
    ANTHROPIC_BASE_URL: baseUrl,
    ANTHROPIC_API_KEY: token,
    // Without it, it refuses to work as root.
    IS_SANDBOX: '1',
    CLAUDE_CONFIG_DIR: `${HOME}/${CONFIG}`,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    DISABLE_TELEMETRY: '1',
    DISABLE_ERROR_REPORTING: '1',
    // Whatever it calls a small or a large model is this one, also for the agents that it starts.
    ANTHROPIC_DEFAULT_OPUS_MODEL: model,
    ANTHROPIC_DEFAULT_SONNET_MODEL: model,
    ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
    ANTHROPIC_SMALL_FAST_MODEL: model,
    CLAUDE_CODE_SUBAGENT_MODEL: model,
    CLAUDE_CODE_MAX_RETRIES: RETRIES,
    API_TIMEOUT_MS: ANSWER_MS,
    // Else it may begin before the servers of the task are there.
    MCP_CONNECTION_NONBLOCKING: 'false',
    ...thinking(wireLevel),
  }
}

function thinking(wire: WireLevel): Record<string, string> {
  if ('budgetTokens' in wire) return { MAX_THINKING_TOKENS: String(wire.budgetTokens) }
  return 'off' in wire ? { MAX_THINKING_TOKENS: '0' } : {}
}

const serversOf = (servers: ToolServer[]): JsonObject =>
  Object.fromEntries(
    servers.map((server) => [
      server.name,
      server.transport === 'stdio'
        ? { type: 'stdio', command: server.command, args: server.args }
        : { type: server.transport === 'sse' ? 'sse' : 'http', url: server.url, headers: server.headers },
    ]),
  )
