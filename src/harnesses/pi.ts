import { nodeBundle, onNode } from './bundles/bundle.ts'
import lock from './bundles/pi.lock.json' with { type: 'json' }
import { envOf, type Harness, HOME, requireAccess } from './harness.ts'
import { HarnessUnfit } from './harness-unfit.ts'
import { type JsonObject, objectAt, objectsAt, textAt } from './json.ts'
import { sayableIn, type Vocabularies } from './levels.ts'
import type { ModelAccess, Protocol, WireLevel } from './model-access.ts'
import type { Moment } from './trajectory.ts'

const SCRIPT = 'node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js'
const CONFIG = '.pi/agent'
const PROVIDER = 'assay'

export const pi: Harness = {
  id: 'pi',
  name: 'pi',
  version: lock.version,
  protocols: ['anthropic-messages', 'openai-responses', 'gemini', 'openai-chat'],
  bundle: nodeBundle('pi', lock),
  helpers: [],
  protocolFor: (model, _level, wire) => sayableIn(VOCABULARIES, pi.protocols, model, wire),
  plan({ instruction }, { mcpServers }, given) {
    const access = requireAccess(pi, given)
    if (mcpServers.length > 0) throw new HarnessUnfit('pi knows no MCP, and this task has servers of tools.')
    return {
      command: [
        ...[...onNode(SCRIPT), '-p', '--mode', 'json', '--no-session', '--provider', PROVIDER],
        ...['--model', access.model, '--thinking', wordFor(access.wireLevel)],
      ],
      env: envOf({ PI_CODING_AGENT_DIR: `${HOME}/${CONFIG}`, PI_OFFLINE: '1', PI_TELEMETRY: '0' }),
      folders: [],
      files: [
        { path: `${CONFIG}/models.json`, text: JSON.stringify({ providers: { [PROVIDER]: provider(access) } }) },
        { path: `${CONFIG}/settings.json`, text: JSON.stringify(settings(access.wireLevel)) },
      ],
      skills: `${CONFIG}/skills`,
      input: instruction,
    }
  },
  moments,
}

const WORDS = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max']
/** The word under which a budget is put. */
const BUDGET_WORD = 'high'
const NOTHING = { efforts: [], budgets: false, off: false, silence: true } as const
const VOCABULARIES: Vocabularies = {
  'anthropic-messages': { efforts: ['low', 'medium', 'high', 'xhigh', 'max'], budgets: true, off: true, silence: true },
  'openai-responses': { ...NOTHING, efforts: ['none', ...WORDS] },
  gemini: { efforts: ['minimal', 'low', 'medium', 'high'], budgets: true, off: true, silence: true },
  'openai-chat': { ...NOTHING, efforts: ['none', ...WORDS] },
}

const APIS: Record<Protocol, { api: string; path: string }> = {
  'anthropic-messages': { api: 'anthropic-messages', path: '' },
  'openai-responses': { api: 'openai-responses', path: '/v1' },
  gemini: { api: 'google-generative-ai', path: '/v1beta' },
  'openai-chat': { api: 'openai-completions', path: '/v1' },
}

function wordFor(wire: WireLevel): string {
  if ('effort' in wire) return WORDS.includes(wire.effort) ? wire.effort : 'off'
  return 'budgetTokens' in wire ? BUDGET_WORD : 'off'
}

/** The model is described whole, so that nothing hangs on whether the program knows it, and no level is rounded. */
function provider({
  protocol,
  model,
  baseUrl,
  token,
  contextTokens,
  outputTokens,
  wireLevel,
}: ModelAccess): JsonObject {
  const { api, path } = APIS[protocol]
  const word = wordFor(wireLevel)
  return {
    ...{ baseUrl: `${baseUrl}${path}`, apiKey: token, api },
    models: [
      {
        ...{ id: model, name: model, reasoning: !('nothing' in wireLevel), input: ['text'] },
        ...{ contextWindow: contextTokens, maxTokens: outputTokens },
        cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
        ...('effort' in wireLevel ? { thinkingLevelMap: { [word]: wireLevel.effort } } : {}),
        ...compat(protocol, wireLevel),
      },
    ],
  }
}

function compat(protocol: Protocol, wire: WireLevel): JsonObject {
  if (protocol === 'anthropic-messages') return { compat: { forceAdaptiveThinking: 'effort' in wire } }
  return protocol === 'openai-chat' ? { compat: CHAT_DIALECT } : {}
}

/** This protocol is spoken only with those who speak no other: what the first of them added later they need not know. */
const CHAT_DIALECT: JsonObject = {
  supportsReasoningEffort: true,
  supportsStore: false,
  supportsDeveloperRole: false,
  maxTokensField: 'max_tokens',
}

const settings = (wire: WireLevel): JsonObject => ({
  enableInstallTelemetry: false,
  ...('budgetTokens' in wire ? { thinkingBudgets: { [BUDGET_WORD]: wire.budgetTokens } } : {}),
})

function moments(line: JsonObject): Moment[] {
  if (line.type === 'tool_execution_end') {
    const text = objectsAt(objectAt(line, 'result'), 'content').map((part) => textAt(part, 'text'))
    return [{ kind: 'result', id: textAt(line, 'toolCallId'), text: text.join('') }]
  }
  const message = objectAt(line, 'message')
  if (line.type !== 'message_end' || message.role !== 'assistant') return []
  return [{ kind: 'turn' }, ...objectsAt(message, 'content').flatMap(spoken)]
}

function spoken(part: JsonObject): Moment[] {
  if (part.type === 'text') return [{ kind: 'message', text: textAt(part, 'text') }]
  if (part.type === 'thinking') return [{ kind: 'thought', text: textAt(part, 'thinking') }]
  if (part.type !== 'toolCall') return []
  return [{ kind: 'call', id: textAt(part, 'id'), name: textAt(part, 'name'), arguments: objectAt(part, 'arguments') }]
}
