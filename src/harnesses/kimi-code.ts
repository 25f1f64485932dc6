import { stringify } from 'smol-toml'
import { nodeBundle, onNode } from './bundles/bundle.ts'
import lock from './bundles/kimi-code.lock.json' with { type: 'json' }
import { envOf, type Harness, HOME, requireAccess, type ToolServer } from './harness.ts'
import { HarnessUnfit } from './harness-unfit.ts'
import { isObject, type JsonObject, objectAt, objectsAt, parseJson, textAt } from './json.ts'
import { sayableIn, type Vocabularies } from './levels.ts'
import type { ModelAccess, Protocol, WireLevel } from './model-access.ts'
import type { Moment } from './trajectory.ts'

const SCRIPT = 'node_modules/@moonshot-ai/kimi-code/dist/main.mjs'
const CONFIG = '.kimi-code'
const NAME = 'assay'
/** The task's time is the limit, not the number of steps. */
const STEPS_MAX = 10_000
/** What the kernel takes as one word of a command. */
const WORD_BYTES_MAX = 128 * 1024 - 1

export const kimiCode: Harness = {
  id: 'kimi-code',
  name: 'Kimi Code',
  version: lock.version,
  protocols: ['openai-chat', 'anthropic-messages', 'openai-responses', 'gemini'],
  bundle: nodeBundle('kimi-code', lock),
  helpers: [],
  protocolFor: (model, _level, wire) => sayableIn(VOCABULARIES, kimiCode.protocols, model, wire),
  plan({ instruction }, { mcpServers }, given) {
    const access = requireAccess(kimiCode, given)
    // It does not read its input.
    if (Buffer.byteLength(instruction) > WORD_BYTES_MAX) {
      throw new HarnessUnfit('The instruction of this task is too long for Kimi Code.')
    }
    return {
      command: [...onNode(SCRIPT), '-p', instruction, '--output-format', 'stream-json', '-m', NAME],
      env: envOf({
        KIMI_CODE_HOME: `${HOME}/${CONFIG}`,
        KIMI_CODE_NO_AUTO_UPDATE: '1',
        KIMI_DISABLE_TELEMETRY: '1',
      }),
      folders: [],
      files: [
        { path: `${CONFIG}/config.toml`, text: stringify(settings(access)) },
        ...(mcpServers.length > 0 ? [{ path: `${CONFIG}/mcp.json`, text: JSON.stringify(serversOf(mcpServers)) }] : []),
      ],
      skills: `${CONFIG}/skills`,
      input: '',
    }
  },
  moments,
}

const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max']
const NOTHING = { efforts: EFFORTS, budgets: false, off: false, silence: false }
const VOCABULARIES: Vocabularies = {
  'openai-chat': NOTHING,
  'openai-responses': NOTHING,
  'anthropic-messages': { ...NOTHING, off: true },
  gemini: { ...NOTHING, efforts: ['low', 'medium', 'high'] },
}

const PROVIDERS: Record<Protocol, { type: string; path: string }> = {
  'openai-chat': { type: 'openai', path: '/v1' },
  'openai-responses': { type: 'openai_responses', path: '/v1' },
  'anthropic-messages': { type: 'anthropic', path: '' },
  gemini: { type: 'google-genai', path: '' },
}

function settings({ protocol, model, baseUrl, token, contextTokens, outputTokens, wireLevel }: ModelAccess) {
  const { type, path } = PROVIDERS[protocol]
  return {
    default_model: NAME,
    telemetry: false,
    providers: { [NAME]: { type, base_url: `${baseUrl}${path}`, api_key: token } },
    models: {
      [NAME]: {
        ...{
          provider: NAME,
          model,
          max_context_size: contextTokens,
          max_output_size: outputTokens,
          capabilities: ['thinking', 'tool_use'],
        },
        ...('effort' in wireLevel ? { support_efforts: [wireLevel.effort], default_effort: wireLevel.effort } : {}),
      },
    },
    thinking: thinking(wireLevel),
    loop_control: { max_steps_per_turn: STEPS_MAX },
  }
}

const thinking = (wire: WireLevel) => ('effort' in wire ? { enabled: true, effort: wire.effort } : { enabled: false })

const serversOf = (servers: ToolServer[]): JsonObject => ({ mcpServers: Object.fromEntries(servers.map(serverOf)) })

function serverOf(server: ToolServer): [string, JsonObject] {
  if (server.transport === 'stdio') {
    return [server.name, { transport: 'stdio', command: server.command, args: server.args }]
  }
  const transport = server.transport === 'sse' ? 'sse' : 'http'
  return [server.name, { transport, url: server.url, headers: server.headers }]
}

function moments(line: JsonObject): Moment[] {
  if (line.role === 'tool') return [{ kind: 'result', id: textAt(line, 'tool_call_id'), text: textAt(line, 'content') }]
  if (line.role !== 'assistant') return []
  return [
    { kind: 'thought', text: textAt(line, 'reasoning_content') },
    { kind: 'message', text: textAt(line, 'content') },
    ...objectsAt(line, 'tool_calls').map(callOf),
  ]
}

function callOf(call: JsonObject): Moment {
  const asked = objectAt(call, 'function')
  const given = parseJson(textAt(asked, 'arguments'))
  return { kind: 'call', id: textAt(call, 'id'), name: textAt(asked, 'name'), arguments: isObject(given) ? given : {} }
}
