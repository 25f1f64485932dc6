import { nodeBundle, onNode } from './bundles/bundle.ts'
import lock from './bundles/gemini-cli.lock.json' with { type: 'json' }
import { envOf, type Harness, requireAccess, type ToolServer } from './harness.ts'
import { type JsonObject, objectAt, textAt } from './json.ts'
import { sayableIn } from './levels.ts'
import type { ModelAccess, WireLevel } from './model-access.ts'
import type { Moment } from './trajectory.ts'

const SCRIPT = 'node_modules/@google/gemini-cli/bundle/gemini.js'
const CONFIG = '.gemini'
const ATTEMPTS = 4
/** The task's time is the limit, not the number of turns. */
const TURNS_MAX = 10_000

export const geminiCli: Harness = {
  id: 'gemini-cli',
  name: 'Gemini CLI',
  version: lock.version,
  protocols: ['gemini'],
  bundle: nodeBundle('gemini-cli', lock),
  // It puts other models in the place of some that it is told to use.
  helpers: [{ name: '*', rule: 'pin' }],
  protocolFor: (model, _level, wire) => sayableIn(VOCABULARY, geminiCli.protocols, model, wire),
  plan({ instruction }, { mcpServers }, given) {
    const access = requireAccess(geminiCli, given)
    return {
      command: [...onNode(SCRIPT), '--yolo', '--output-format', 'stream-json', '-m', access.model],
      env: envOf({
        GEMINI_API_KEY: access.token,
        GOOGLE_GEMINI_BASE_URL: access.baseUrl,
        GEMINI_CLI_TRUST_WORKSPACE: 'true',
        GEMINI_TELEMETRY_ENABLED: 'false',
        // Else it starts itself a second time to have more memory.
        GEMINI_CLI_NO_RELAUNCH: 'true',
      }),
      folders: [],
      files: [{ path: `${CONFIG}/settings.json`, text: JSON.stringify(settings(access, mcpServers)) }],
      skills: `${CONFIG}/skills`,
      input: instruction,
    }
  },
  moments,
}

const VOCABULARY = {
  gemini: { efforts: ['minimal', 'low', 'medium', 'high'], budgets: true, off: true, silence: false },
} as const

const settings = ({ model, wireLevel }: ModelAccess, servers: ToolServer[]): JsonObject => ({
  security: { auth: { selectedType: 'gemini-api-key' } },
  general: { enableAutoUpdate: false, enableAutoUpdateNotification: false, maxAttempts: ATTEMPTS },
  privacy: { usageStatisticsEnabled: false },
  telemetry: { enabled: false },
  tools: { exclude: ['google_web_search', 'web_fetch'] },
  model: { maxSessionTurns: TURNS_MAX },
  modelConfigs: {
    customOverrides: [
      { match: { model }, modelConfig: { generateContentConfig: { thinkingConfig: thinking(wireLevel) } } },
    ],
  },
  ...(servers.length > 0 ? { mcpServers: Object.fromEntries(servers.map(serverOf)) } : {}),
})

function thinking(wire: WireLevel): JsonObject {
  if ('effort' in wire) return { includeThoughts: true, thinkingLevel: wire.effort.toUpperCase() }
  if ('budgetTokens' in wire) return { includeThoughts: true, thinkingBudget: wire.budgetTokens }
  return { thinkingBudget: 0 }
}

function serverOf(server: ToolServer): [string, JsonObject] {
  if (server.transport === 'stdio') return [server.name, { command: server.command, args: server.args, trust: true }]
  const address = server.transport === 'sse' ? { url: server.url } : { httpUrl: server.url }
  return [server.name, { ...address, headers: server.headers, trust: true }]
}

function moments(line: JsonObject): Moment[] {
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
