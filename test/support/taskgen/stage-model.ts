import { startProvider } from '../../../samples/provider/provider.ts'
import type { ScriptInput } from '../../../samples/provider/script.ts'
import { startGateway } from '../../../src/gateway/gateway.ts'
import { memoryLedger } from '../../../src/gateway/memory-ledger.ts'
import { SANDBOX_GATEWAY_URL } from '../../../src/gateway/sandbox-port.ts'
import type { Protocol, WireLevel } from '../../../src/harnesses/model-access.ts'
import { newId } from '../../../src/platform/ids.ts'
import { createLog } from '../../../src/platform/log.ts'
import { createOpenStream } from '../../../src/platform/outbound/stream.ts'
import { AUTHOR_LIMITS, type OpenModelInput, openStageModel } from '../../../src/taskgen/models/stage-model.ts'

const KEY = 'sk-canary-41c07b'
const PRICES = { input: 3, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75, cacheWrite1h: 6 }
const SIZES = { contextTokens: 200_000, outputTokens: 64_000 }
const RETRY = { triesMax: 2, totalMs: 1_000, firstMs: 1, pauseMaxMs: 100, quietMs: 10 }

export type StageBench = Awaited<ReturnType<typeof openStageBench>>

/** Starts a real gateway with a ledger in memory and a scripted provider. */
export async function openStageBench() {
  await using undo = new AsyncDisposableStack()
  const provider = undo.use(await startProvider())
  const ledger = memoryLedger()
  const gateway = await startGateway(
    {
      ledger,
      openStream: createOpenStream(),
      openKey: async () => KEY,
      findUpstream: () => ({ url: provider.url, trust: 'operator' }),
      log: createLog('silent'),
      counters: { settled: () => {}, refused: () => {}, retried: () => {} },
    },
    { host: '127.0.0.1', port: 0 },
    // Abandoned calls are not awaited.
    { retry: RETRY, drainMs: 1 },
  )
  undo.defer(() => gateway.stop(0))
  const way = { ledger, gatewayUrl: gateway.url }
  const running = undo.move()
  return {
    provider,
    key: KEY,
    /** Opens a model for one candidate with a script for its provider. */
    async open(protocol: Protocol, script: ScriptInput, changes: Partial<OpenModelInput> = {}) {
      provider.forget()
      provider.setScript({ keys: [KEY], ...script })
      return openStageModel(way, { ...wishFor(protocol), ...changes })
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

export function wishFor(protocol: Protocol): OpenModelInput {
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
