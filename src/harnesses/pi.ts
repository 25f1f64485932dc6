import { nodeBundle, nodeCommand } from './bundles/bundle.ts'
import lock from './bundles/pi.lock.json' with { type: 'json' }
import { type Harness, HarnessUnfit, HOME, requireModelAccess, toEnv } from './harness.ts'
import { type JsonObject, objectAt, objectsAt, textAt } from './json.ts'
import { findProtocol, type LevelMapping, type ModelAccess, type Protocol, type WireLevel } from './model-access.ts'
import type { TrajectoryEvent } from './trajectory.ts'

const SCRIPT = 'node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js'
const CONFIG = '.pi/agent'
const PROVIDER = 'assay'

export const pi: Harness = {
  id: 'pi',
  name: 'pi',
  version: lock.version,
  protocols: ['anthropic-messages', 'openai-responses', 'gemini', 'openai-chat'],
  bundle: nodeBundle('pi', lock),
  auxiliaryModels: [],
  protocolFor: (model, _level, wire) => findProtocol(SUPPORTED_LEVELS, pi.protocols, model, wire),
  plan({ instruction }, { mcpServers }, optionalAccess) {
    const access = requireModelAccess(pi, optionalAccess)
    if (mcpServers.length > 0) throw new HarnessUnfit('pi does not support MCP, which this task requires.')
    return {
      command: [
        ...[...nodeCommand(SCRIPT), '-p', '--mode', 'json', '--no-session', '--provider', PROVIDER],
        ...['--model', access.model, '--thinking', toThinkingWord(access.wireLevel)],
      ],
      env: toEnv({ PI_CODING_AGENT_DIR: `${HOME}/${CONFIG}`, PI_OFFLINE: '1', PI_TELEMETRY: '0' }),
      folders: [],
      files: [
        { path: `${CONFIG}/models.json`, text: JSON.stringify({ providers: { [PROVIDER]: buildProvider(access) } }) },
        { path: `${CONFIG}/settings.json`, text: JSON.stringify(buildSettings(access.wireLevel)) },
      ],
      skills: `${CONFIG}/skills`,
      input: instruction,
    }
  },
  trajectoryEvents,
}

const THINKING_WORDS = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max']
/** The thinking word that a token budget is configured for. */
const BUDGET_WORD = 'high'
const NO_LEVELS = { efforts: [], budgets: false, off: false, unset: true } as const
const SUPPORTED_LEVELS: LevelMapping = {
  'anthropic-messages': { efforts: ['low', 'medium', 'high', 'xhigh', 'max'], budgets: true, off: true, unset: true },
  'openai-responses': { ...NO_LEVELS, efforts: ['none', ...THINKING_WORDS] },
  gemini: { efforts: ['minimal', 'low', 'medium', 'high'], budgets: true, off: true, unset: true },
  'openai-chat': { ...NO_LEVELS, efforts: ['none', ...THINKING_WORDS] },
}

const APIS: Record<Protocol, { api: string; path: string }> = {
  'anthropic-messages': { api: 'anthropic-messages', path: '' },
  'openai-responses': { api: 'openai-responses', path: '/v1' },
  gemini: { api: 'google-generative-ai', path: '/v1beta' },
  'openai-chat': { api: 'openai-completions', path: '/v1' },
}

function toThinkingWord(wire: WireLevel): string {
  if ('effort' in wire) return THINKING_WORDS.includes(wire.effort) ? wire.effort : 'off'
  return 'budgetTokens' in wire ? BUDGET_WORD : 'off'
}

/** Describes the model completely, so that the program uses no defaults of its own and rounds no level. */
function buildProvider({
  protocol,
  model,
  baseUrl,
  token,
  contextTokens,
  outputTokens,
  wireLevel,
}: ModelAccess): JsonObject {
  const { api, path } = APIS[protocol]
  const word = toThinkingWord(wireLevel)
  return {
    baseUrl: `${baseUrl}${path}`,
    apiKey: token,
    api,
    models: [
      {
        id: model,
        name: model,
        reasoning: !('nothing' in wireLevel),
        input: ['text'],
        contextWindow: contextTokens,
        maxTokens: outputTokens,
        cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
        ...('effort' in wireLevel ? { thinkingLevelMap: { [word]: wireLevel.effort } } : {}),
        ...buildCompat(protocol, wireLevel),
      },
    ],
  }
}

function buildCompat(protocol: Protocol, wire: WireLevel): JsonObject {
  if (protocol === 'anthropic-messages') return { compat: { forceAdaptiveThinking: 'effort' in wire } }
  return protocol === 'openai-chat' ? { compat: CHAT_DIALECT } : {}
}

/** Only providers that support no other protocol use this one, so OpenAI's later additions to it are disabled. */
const CHAT_DIALECT: JsonObject = {
  supportsReasoningEffort: true,
  supportsStore: false,
  supportsDeveloperRole: false,
  maxTokensField: 'max_tokens',
}

const buildSettings = (wire: WireLevel): JsonObject => ({
  enableInstallTelemetry: false,
  ...('budgetTokens' in wire ? { thinkingBudgets: { [BUDGET_WORD]: wire.budgetTokens } } : {}),
})

function trajectoryEvents(line: JsonObject): TrajectoryEvent[] {
  if (line.type === 'tool_execution_end') {
    const text = objectsAt(objectAt(line, 'result'), 'content').map((part) => textAt(part, 'text'))
    return [{ kind: 'result', id: textAt(line, 'toolCallId'), text: text.join('') }]
  }
  const message = objectAt(line, 'message')
  if (line.type !== 'message_end' || message.role !== 'assistant') return []
  return [{ kind: 'turn' }, ...objectsAt(message, 'content').flatMap(parsePart)]
}

function parsePart(part: JsonObject): TrajectoryEvent[] {
  if (part.type === 'text') return [{ kind: 'message', text: textAt(part, 'text') }]
  if (part.type === 'thinking') return [{ kind: 'thought', text: textAt(part, 'thinking') }]
  if (part.type !== 'toolCall') return []
  return [{ kind: 'call', id: textAt(part, 'id'), name: textAt(part, 'name'), arguments: objectAt(part, 'arguments') }]
}
