import { nodeBundle, nodeCommand } from './bundles/bundle.ts'
import lock from './bundles/qwen-code.lock.json' with { type: 'json' }
import { parseStreamJson } from './claude-code.ts'
import { toServerEntry } from './gemini-cli.ts'
import { type Harness, requireModelAccess, type ToolServer, toEnv } from './harness.ts'
import type { JsonObject } from './json.ts'
import { findProtocol, type LevelMapping, type ModelAccess, type Protocol, type WireLevel } from './model-access.ts'

const SCRIPT = 'node_modules/@qwen-code/qwen-code/cli-entry.js'
const CONFIG = '.qwen'
const TOKEN_VARIABLE = 'ASSAY_MODEL_TOKEN'

export const qwenCode: Harness = {
  id: 'qwen-code',
  name: 'Qwen Code',
  version: lock.version,
  protocols: ['openai-chat', 'openai-responses', 'anthropic-messages'],
  bundle: nodeBundle('qwen-code', lock),
  auxiliaryModels: [],
  supportsMcp: true,
  protocolFor: (model, _level, wire) => findProtocol(SUPPORTED_LEVELS, qwenCode.protocols, model, wire),
  plan({ instruction }, { mcpServers }, optionalAccess) {
    const access = requireModelAccess(qwenCode, optionalAccess)
    const { type } = PROVIDERS[access.protocol]
    return {
      command: [...nodeCommand(SCRIPT), '--yolo', '--auth-type', type, '-o', 'stream-json', '-m', access.model],
      env: toEnv({
        [TOKEN_VARIABLE]: access.token,
        QWEN_CODE_SUPPRESS_YOLO_WARNING: '1',
        QWEN_USAGE_STATISTICS_ENABLED: '0',
      }),
      folders: [],
      files: [{ path: `${CONFIG}/settings.json`, text: JSON.stringify(buildSettings(access, mcpServers)) }],
      skills: `${CONFIG}/skills`,
      input: instruction,
    }
  },
  trajectoryEvents: parseStreamJson,
}

const EFFORTS = ['low', 'medium', 'high', 'xhigh']
const SUPPORTED_LEVELS: LevelMapping = {
  // The program does not support the protocol's highest effort, `max`.
  'openai-chat': { efforts: EFFORTS, budgets: false, off: false, unset: true },
  'openai-responses': { efforts: EFFORTS, budgets: false, off: false, unset: true },
  'anthropic-messages': { efforts: [...EFFORTS, 'max'], budgets: false, off: false, unset: true },
}

const PROVIDERS: Record<Protocol, { type: string; path: string }> = {
  'openai-chat': { type: 'openai', path: '/v1' },
  'openai-responses': { type: 'openai-responses', path: '/v1' },
  'anthropic-messages': { type: 'anthropic', path: '' },
  gemini: { type: 'gemini', path: '' },
}

function buildSettings(access: ModelAccess, servers: ToolServer[]): JsonObject {
  const { protocol, model, baseUrl, wireLevel, contextTokens } = access
  const { type, path } = PROVIDERS[protocol]
  const generationConfig = { contextWindowSize: contextTokens, ...toThinking(wireLevel) }
  const provider = { id: model, name: model, baseUrl: `${baseUrl}${path}`, envKey: TOKEN_VARIABLE, generationConfig }
  return {
    privacy: { usageStatisticsEnabled: false },
    telemetry: { enabled: false },
    general: { enableAutoUpdate: false },
    tools: { exclude: ['web_fetch', 'web_search'] },
    modelProviders: { [type]: [provider] },
    ...(servers.length > 0 ? { mcpServers: Object.fromEntries(servers.map(toServerEntry)) } : {}),
  }
}

const toThinking = (wire: WireLevel): JsonObject => ('effort' in wire ? { reasoning: { effort: wire.effort } } : {})
