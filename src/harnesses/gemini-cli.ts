import { nodeBundle, nodeCommand } from './bundles/bundle.ts'
import lock from './bundles/gemini-cli.lock.json' with { type: 'json' }
import { type Harness, requireModelAccess, type ToolServer, toEnv } from './harness.ts'
import { type JsonObject, objectAt, textAt } from './json.ts'
import { findProtocol, type ModelAccess, type WireLevel } from './model-access.ts'
import type { TrajectoryEvent } from './trajectory.ts'

const SCRIPT = 'node_modules/@google/gemini-cli/bundle/gemini.js'
const CONFIG = '.gemini'
/** Maximum number of attempts of a model call. It is low, because the gateway retries too. */
const ATTEMPTS_MAX = 4
/** Effectively unlimited: the task's timeout ends the agent, not the number of turns. */
const TURNS_MAX = 10_000

export const geminiCli: Harness = {
  id: 'gemini-cli',
  name: 'Gemini CLI',
  version: lock.version,
  protocols: ['gemini'],
  bundle: nodeBundle('gemini-cli', lock),
  // The program replaces some models with others of its own choice.
  auxiliaryModels: [{ name: '*', rule: 'pin' }],
  supportsMcp: true,
  protocolFor: (model, _level, wire) => findProtocol(SUPPORTED_LEVELS, geminiCli.protocols, model, wire),
  plan({ instruction }, { mcpServers }, optionalAccess) {
    const access = requireModelAccess(geminiCli, optionalAccess)
    return {
      command: [...nodeCommand(SCRIPT), '--yolo', '--output-format', 'stream-json', '-m', access.model],
      env: toEnv({
        GEMINI_API_KEY: access.token,
        GOOGLE_GEMINI_BASE_URL: access.baseUrl,
        GEMINI_CLI_TRUST_WORKSPACE: 'true',
        GEMINI_TELEMETRY_ENABLED: 'false',
        // Otherwise the program restarts itself to get more memory.
        GEMINI_CLI_NO_RELAUNCH: 'true',
      }),
      folders: [],
      files: [{ path: `${CONFIG}/settings.json`, text: JSON.stringify(buildSettings(access, mcpServers)) }],
      skills: `${CONFIG}/skills`,
      input: instruction,
    }
  },
  trajectoryEvents,
}

const SUPPORTED_LEVELS = {
  gemini: { efforts: ['minimal', 'low', 'medium', 'high'], budgets: true, off: true, unset: false },
} as const

const buildSettings = ({ model, wireLevel }: ModelAccess, servers: ToolServer[]): JsonObject => ({
  security: { auth: { selectedType: 'gemini-api-key' } },
  general: { enableAutoUpdate: false, enableAutoUpdateNotification: false, maxAttempts: ATTEMPTS_MAX },
  privacy: { usageStatisticsEnabled: false },
  telemetry: { enabled: false },
  tools: { exclude: ['google_web_search', 'web_fetch'] },
  model: { maxSessionTurns: TURNS_MAX },
  modelConfigs: {
    customOverrides: [
      { match: { model }, modelConfig: { generateContentConfig: { thinkingConfig: toThinking(wireLevel) } } },
    ],
  },
  ...(servers.length > 0 ? { mcpServers: Object.fromEntries(servers.map(toServerEntry)) } : {}),
})

function toThinking(wire: WireLevel): JsonObject {
  if ('effort' in wire) return { includeThoughts: true, thinkingLevel: wire.effort.toUpperCase() }
  if ('budgetTokens' in wire) return { includeThoughts: true, thinkingBudget: wire.budgetTokens }
  return { thinkingBudget: 0 }
}

/** Returns the settings of a tool server, as Gemini CLI and its descendants read them. */
export function toServerEntry(server: ToolServer): [string, JsonObject] {
  if (server.transport === 'stdio') return [server.name, { command: server.command, args: server.args, trust: true }]
  const address = server.transport === 'sse' ? { url: server.url } : { httpUrl: server.url }
  return [server.name, { ...address, headers: server.headers, trust: true }]
}

function trajectoryEvents(line: JsonObject): TrajectoryEvent[] {
  switch (textAt(line, 'type')) {
    case 'message':
      return line.role === 'assistant' ? [{ kind: 'message', text: textAt(line, 'content') }] : []
    case 'tool_use': {
      const id = textAt(line, 'tool_id')
      return [{ kind: 'call', id, name: textAt(line, 'tool_name'), arguments: objectAt(line, 'parameters') }]
    }
    case 'tool_result':
      return [{ kind: 'result', id: textAt(line, 'tool_id'), text: textAt(line, 'output') }]
    default:
      return []
  }
}
