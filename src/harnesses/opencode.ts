import { BUNDLE, nativeBundle } from './bundles/bundle.ts'
import lock from './bundles/opencode.lock.json' with { type: 'json' }
import { type Harness, HOME, requireModelAccess, type ToolServer, toEnv } from './harness.ts'
import { type JsonObject, objectAt, textAt } from './json.ts'
import { findProtocol, type LevelMapping, type ModelAccess, type Protocol, type WireLevel } from './model-access.ts'
import type { TrajectoryEvent } from './trajectory.ts'

const PROGRAM = 'program/bin/opencode'
const CONFIG = '.config/opencode'
const PLUGIN_LIBRARY_LOCK = { packages: { '': { dependencies: { '@opencode-ai/plugin': lock.version } } } }
const PROVIDER = 'assay'
/** A variant of our own that carries the reasoning level: the program silently ignores variants it does not know. */
const VARIANT = 'assay'

/** The folders of the program, all below its home folder. */
export const XDG_FOLDERS = {
  XDG_CONFIG_HOME: `${HOME}/.config`,
  XDG_DATA_HOME: `${HOME}/.local/share`,
  XDG_CACHE_HOME: `${HOME}/.cache`,
  XDG_STATE_HOME: `${HOME}/.local/state`,
}

export const opencode: Harness = {
  id: 'opencode',
  name: 'OpenCode',
  version: lock.version,
  protocols: ['anthropic-messages', 'openai-responses', 'gemini', 'openai-chat'],
  bundle: nativeBundle('opencode', lock, PROGRAM),
  auxiliaryModels: [],
  supportsMcp: true,
  protocolFor: (model, _level, wire) => findProtocol(SUPPORTED_LEVELS, opencode.protocols, model, wire),
  plan({ instruction }, { mcpServers }, optionalAccess) {
    const access = requireModelAccess(opencode, optionalAccess)
    return {
      command: [
        ...[`${BUNDLE}/${PROGRAM}`, 'run', '--format', 'json', '--auto', '--title', 'task'],
        ...['-m', `${PROVIDER}/${access.model}`, '--variant', VARIANT],
      ],
      env: toEnv({
        OPENCODE_DISABLE_AUTOUPDATE: '1',
        OPENCODE_DISABLE_MODELS_FETCH: '1',
        OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
        ...XDG_FOLDERS,
      }),
      folders: [],
      files: [
        { path: `${CONFIG}/opencode.json`, text: JSON.stringify(buildSettings(access, mcpServers)) },
        // Marks the plugin library as installed, so that the program does not fetch it from the npm registry.
        { path: `${CONFIG}/package-lock.json`, text: JSON.stringify(PLUGIN_LIBRARY_LOCK) },
        { path: `${CONFIG}/node_modules/.keep`, text: '' },
      ],
      skills: `${CONFIG}/skills`,
      input: instruction,
    }
  },
  trajectoryEvents: parseOpencodeEvents,
}

const NO_LEVELS = { efforts: [], budgets: false, off: false, unset: true } as const
const SUPPORTED_LEVELS: LevelMapping = {
  // The program's library omits the parameter when thinking is off.
  'anthropic-messages': {
    efforts: ['low', 'medium', 'high', 'xhigh', 'max'],
    budgets: true,
    off: false,
    unset: true,
  },
  'openai-responses': { ...NO_LEVELS, efforts: 'any', unset: false },
  gemini: { efforts: ['minimal', 'low', 'medium', 'high'], budgets: true, off: true, unset: false },
  'openai-chat': { ...NO_LEVELS, efforts: 'any' },
}

/** Libraries bundled with the program, and the base path that each expects. */
const LIBRARIES: Record<Protocol, { npm: string; path: string }> = {
  'anthropic-messages': { npm: '@ai-sdk/anthropic', path: '/v1' },
  'openai-responses': { npm: '@ai-sdk/openai', path: '/v1' },
  gemini: { npm: '@ai-sdk/google', path: '/v1beta' },
  'openai-chat': { npm: '@ai-sdk/openai-compatible', path: '/v1' },
}

function buildSettings(access: ModelAccess, servers: ToolServer[]): JsonObject {
  const { protocol, model, baseUrl, token, contextTokens, outputTokens, wireLevel } = access
  const { npm, path } = LIBRARIES[protocol]
  return {
    autoupdate: false,
    share: 'disabled',
    permission: { webfetch: 'deny', websearch: 'deny', question: 'deny' },
    small_model: `${PROVIDER}/${model}`,
    provider: {
      [PROVIDER]: {
        npm,
        name: PROVIDER,
        options: { baseURL: `${baseUrl}${path}`, apiKey: token, timeout: false },
        models: {
          [model]: {
            name: model,
            tool_call: true,
            reasoning: !('nothing' in wireLevel),
            limit: { context: contextTokens, output: outputTokens },
            variants: { [VARIANT]: toThinking(protocol, wireLevel) },
          },
        },
      },
    },
    ...(servers.length > 0 ? { mcp: Object.fromEntries(servers.map(toServerEntry)) } : {}),
  }
}

function toThinking(protocol: Protocol, wire: WireLevel): JsonObject {
  if ('nothing' in wire) return {}
  if (protocol === 'anthropic-messages') return toAnthropicThinking(wire)
  if (protocol === 'gemini') return { thinkingConfig: toGeminiThinking(wire) }
  const effort = 'effort' in wire ? { reasoningEffort: wire.effort } : {}
  if (protocol === 'openai-chat') return effort
  return { ...effort, reasoningSummary: 'auto', include: ['reasoning.encrypted_content'] }
}

function toAnthropicThinking(wire: WireLevel): JsonObject {
  if ('effort' in wire) return { thinking: { type: 'adaptive' }, effort: wire.effort }
  return 'budgetTokens' in wire ? { thinking: { type: 'enabled', budgetTokens: wire.budgetTokens } } : {}
}

function toGeminiThinking(wire: WireLevel): JsonObject {
  if ('effort' in wire) return { includeThoughts: true, thinkingLevel: wire.effort }
  if ('budgetTokens' in wire) return { includeThoughts: true, thinkingBudget: wire.budgetTokens }
  return { thinkingBudget: 0 }
}

function toServerEntry(server: ToolServer): [string, JsonObject] {
  if (server.transport === 'stdio') return [server.name, { type: 'local', command: [server.command, ...server.args] }]
  return [server.name, { type: 'remote', url: server.url, headers: server.headers, oauth: false }]
}

/** Parses the lines that OpenCode and its descendants print. */
export function parseOpencodeEvents(line: JsonObject): TrajectoryEvent[] {
  const part = objectAt(line, 'part')
  if (line.type === 'step_start') return [{ kind: 'turn' }]
  if (line.type === 'text') return [{ kind: 'message', text: textAt(part, 'text') }]
  if (line.type === 'reasoning') return [{ kind: 'thought', text: textAt(part, 'text') }]
  if (line.type !== 'tool_use') return []
  const state = objectAt(part, 'state')
  const id = textAt(part, 'callID')
  return [
    { kind: 'call', id, name: textAt(part, 'tool'), arguments: objectAt(state, 'input') },
    { kind: 'result', id, text: textAt(state, 'output') || textAt(state, 'error') },
  ]
}
