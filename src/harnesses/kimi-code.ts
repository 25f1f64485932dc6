import { stringify } from 'smol-toml'
import { nodeBundle, nodeCommand } from './bundles/bundle.ts'
import lock from './bundles/kimi-code.lock.json' with { type: 'json' }
import { requireArgument, toCallEvent } from './chat-program.ts'
import { type Harness, HOME, requireModelAccess, type ToolServer, toEnv } from './harness.ts'
import { type JsonObject, objectsAt, textAt } from './json.ts'
import { findProtocol, type LevelMapping, type ModelAccess, type Protocol, type WireLevel } from './model-access.ts'
import type { TrajectoryEvent } from './trajectory.ts'

const SCRIPT = 'node_modules/@moonshot-ai/kimi-code/dist/main.mjs'
const CONFIG = '.kimi-code'
const MODEL_ALIAS = 'assay'
/** Effectively unlimited: the task's timeout ends the agent, not the number of steps. */
const STEPS_MAX = 10_000

export const kimiCode: Harness = {
  id: 'kimi-code',
  name: 'Kimi Code',
  version: lock.version,
  protocols: ['openai-chat', 'anthropic-messages', 'openai-responses', 'gemini'],
  bundle: nodeBundle('kimi-code', lock),
  auxiliaryModels: [],
  supportsMcp: true,
  protocolFor: (model, _level, wire) => findProtocol(SUPPORTED_LEVELS, kimiCode.protocols, model, wire),
  plan({ instruction }, { mcpServers }, optionalAccess) {
    const access = requireModelAccess(kimiCode, optionalAccess)
    // The program does not read standard input.
    const prompt = requireArgument('Kimi Code', instruction)
    return {
      command: [...nodeCommand(SCRIPT), '-p', prompt, '--output-format', 'stream-json', '-m', MODEL_ALIAS],
      env: toEnv({
        KIMI_CODE_HOME: `${HOME}/${CONFIG}`,
        KIMI_CODE_NO_AUTO_UPDATE: '1',
        KIMI_DISABLE_TELEMETRY: '1',
      }),
      folders: [],
      files: [
        { path: `${CONFIG}/config.toml`, text: stringify(buildSettings(access)) },
        ...(mcpServers.length > 0 ? [{ path: `${CONFIG}/mcp.json`, text: JSON.stringify(toServers(mcpServers)) }] : []),
      ],
      skills: `${CONFIG}/skills`,
      input: '',
    }
  },
  trajectoryEvents,
}

const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max']
const EFFORTS_ONLY = { efforts: EFFORTS, budgets: false, off: false, unset: false }
const SUPPORTED_LEVELS: LevelMapping = {
  'openai-chat': EFFORTS_ONLY,
  'openai-responses': EFFORTS_ONLY,
  'anthropic-messages': { ...EFFORTS_ONLY, off: true },
  gemini: { ...EFFORTS_ONLY, efforts: ['low', 'medium', 'high'] },
}

const PROVIDERS: Record<Protocol, { type: string; path: string }> = {
  'openai-chat': { type: 'openai', path: '/v1' },
  'openai-responses': { type: 'openai_responses', path: '/v1' },
  'anthropic-messages': { type: 'anthropic', path: '' },
  gemini: { type: 'google-genai', path: '' },
}

function buildSettings({ protocol, model, baseUrl, token, contextTokens, outputTokens, wireLevel }: ModelAccess) {
  const { type, path } = PROVIDERS[protocol]
  return {
    default_model: MODEL_ALIAS,
    telemetry: false,
    providers: { [MODEL_ALIAS]: { type, base_url: `${baseUrl}${path}`, api_key: token } },
    models: {
      [MODEL_ALIAS]: {
        provider: MODEL_ALIAS,
        model,
        max_context_size: contextTokens,
        max_output_size: outputTokens,
        capabilities: ['thinking', 'tool_use'],
        ...('effort' in wireLevel ? { support_efforts: [wireLevel.effort], default_effort: wireLevel.effort } : {}),
      },
    },
    thinking: toThinking(wireLevel),
    loop_control: { max_steps_per_turn: STEPS_MAX },
  }
}

const toThinking = (wire: WireLevel) => ('effort' in wire ? { enabled: true, effort: wire.effort } : { enabled: false })

const toServers = (servers: ToolServer[]): JsonObject => ({
  mcpServers: Object.fromEntries(servers.map(toServerEntry)),
})

function toServerEntry(server: ToolServer): [string, JsonObject] {
  if (server.transport === 'stdio') {
    return [server.name, { transport: 'stdio', command: server.command, args: server.args }]
  }
  const transport = server.transport === 'sse' ? 'sse' : 'http'
  return [server.name, { transport, url: server.url, headers: server.headers }]
}

function trajectoryEvents(line: JsonObject): TrajectoryEvent[] {
  if (line.role === 'tool') return [{ kind: 'result', id: textAt(line, 'tool_call_id'), text: textAt(line, 'content') }]
  if (line.role !== 'assistant') return []
  return [
    { kind: 'thought', text: textAt(line, 'reasoning_content') },
    { kind: 'message', text: textAt(line, 'content') },
    ...objectsAt(line, 'tool_calls').map(toCallEvent),
  ]
}
