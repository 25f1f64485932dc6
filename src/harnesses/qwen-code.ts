import { nodeBundle, onNode } from './bundles/bundle.ts'
import lock from './bundles/qwen-code.lock.json' with { type: 'json' }
import { envOf, type Harness, requireAccess, type ToolServer } from './harness.ts'
import type { JsonObject } from './json.ts'
import { sayableIn, type Vocabularies } from './levels.ts'
import type { ModelAccess, Protocol, WireLevel } from './model-access.ts'
import { streamJsonMoments } from './stream-json.ts'

const SCRIPT = 'node_modules/@qwen-code/qwen-code/cli-entry.js'
const CONFIG = '.qwen'
const KEY = 'ASSAY_MODEL_TOKEN'

export const qwenCode: Harness = {
  id: 'qwen-code',
  name: 'Qwen Code',
  version: lock.version,
  protocols: ['openai-chat', 'openai-responses', 'anthropic-messages'],
  bundle: nodeBundle('qwen-code', lock),
  helpers: [],
  protocolFor: (model, _level, wire) => sayableIn(VOCABULARIES, qwenCode.protocols, model, wire),
  plan({ instruction }, { mcpServers }, given) {
    const access = requireAccess(qwenCode, given)
    const { type } = PROVIDERS[access.protocol]
    return {
      command: [...onNode(SCRIPT), '--yolo', '--auth-type', type, '-o', 'stream-json', '-m', access.model],
      env: envOf({ [KEY]: access.token, QWEN_CODE_SUPPRESS_YOLO_WARNING: '1', QWEN_USAGE_STATISTICS_ENABLED: '0' }),
      folders: [],
      files: [{ path: `${CONFIG}/settings.json`, text: JSON.stringify(settings(access, mcpServers)) }],
      skills: `${CONFIG}/skills`,
      input: instruction,
    }
  },
  moments: streamJsonMoments,
}

const EFFORTS = ['low', 'medium', 'high', 'xhigh']
const VOCABULARIES: Vocabularies = {
  // Its highest is one less than the protocol's.
  'openai-chat': { efforts: EFFORTS, budgets: false, off: false, silence: true },
  'openai-responses': { efforts: EFFORTS, budgets: false, off: false, silence: true },
  'anthropic-messages': { efforts: [...EFFORTS, 'max'], budgets: false, off: false, silence: true },
}

const PROVIDERS: Record<Protocol, { type: string; path: string }> = {
  'openai-chat': { type: 'openai', path: '/v1' },
  'openai-responses': { type: 'openai-responses', path: '/v1' },
  'anthropic-messages': { type: 'anthropic', path: '' },
  gemini: { type: 'gemini', path: '' },
}

function settings(access: ModelAccess, servers: ToolServer[]): JsonObject {
  const { protocol, model, baseUrl, wireLevel, contextTokens } = access
  const { type, path } = PROVIDERS[protocol]
  const generationConfig = { contextWindowSize: contextTokens, ...thinking(wireLevel) }
  const provider = { id: model, name: model, baseUrl: `${baseUrl}${path}`, envKey: KEY, generationConfig }
  return {
    privacy: { usageStatisticsEnabled: false },
    telemetry: { enabled: false },
    general: { enableAutoUpdate: false },
    tools: { exclude: ['web_fetch', 'web_search'] },
    modelProviders: { [type]: [provider] },
    ...(servers.length > 0 ? { mcpServers: Object.fromEntries(servers.map(serverOf)) } : {}),
  }
}

const thinking = (wire: WireLevel): JsonObject => ('effort' in wire ? { reasoning: { effort: wire.effort } } : {})

function serverOf(server: ToolServer): [string, JsonObject] {
  if (server.transport === 'stdio') return [server.name, { command: server.command, args: server.args, trust: true }]
  const address = server.transport === 'sse' ? { url: server.url } : { httpUrl: server.url }
  return [server.name, { ...address, headers: server.headers, trust: true }]
}
