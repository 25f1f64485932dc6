import type { ScriptInput } from '../../../samples/provider/script.ts'
import { SANDBOX_GATEWAY_URL } from '../../../src/gateway/sandbox-port.ts'
import type { Protocol, WireLevel } from '../../../src/harnesses/model-access.ts'
import { newId } from '../../../src/platform/ids.ts'
import { AUTHOR_LIMITS, type OpenModelInput, openStageModel } from '../../../src/taskgen/models/stage-model.ts'
import { startScriptedGateway } from '../gateway/scripted-gateway.ts'

const KEY = 'sk-canary-41c07b'
const PRICES = { input: 3, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75, cacheWrite1h: 6 }
const SIZES = { contextTokens: 200_000, outputTokens: 64_000 }
const RETRY = { triesMax: 2, totalMs: 1_000, firstMs: 1, pauseMaxMs: 100, quietMs: 10 }

export type StageModelFixture = Awaited<ReturnType<typeof openStageModelFixture>>

/** Starts a real gateway with a ledger in memory and a scripted provider. */
export async function openStageModelFixture() {
  // Abandoned calls are not awaited.
  const scripted = await startScriptedGateway(KEY, { retry: RETRY, drainMs: 1 })
  const { provider, ledger, gatewayUrl } = scripted
  return {
    provider,
    key: KEY,
    /** Opens a model for one candidate with a script for its provider. */
    async open(protocol: Protocol, script: ScriptInput, changes: Partial<OpenModelInput> = {}) {
      provider.forget()
      provider.setScript({ keys: [KEY], ...script })
      return openStageModel({ ledger, gatewayUrl }, { ...buildModelInput(protocol), ...changes })
    },
    [Symbol.asyncDispose]: () => scripted[Symbol.asyncDispose](),
  }
}

export function buildModelInput(protocol: Protocol): OpenModelInput {
  const wireLevel: WireLevel = { effort: 'low' }
  const traits = { model: 'large-1', provider: 'acme', ...SIZES }
  return {
    workspaceId: newId(),
    grantee: `author ${newId()}`,
    credentialId: newId(),
    access: { ...traits, protocols: [protocol], protocol, level: 'low', wireLevel, baseUrl: SANDBOX_GATEWAY_URL },
    terms: {
      catalogId: 'acme/large',
      model: traits.model,
      provider: traits.provider,
      baseUrl: null,
      protocols: [protocol],
      wireLevel,
      outputTokens: SIZES.outputTokens,
      prices: PRICES,
      helpers: [],
      recordBodies: false,
    },
    ...AUTHOR_LIMITS,
    batchLeftMicros: null,
    deferrals: 0,
  }
}
