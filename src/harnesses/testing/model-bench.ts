import { join } from 'node:path'
import { startProvider } from '../../../samples/provider/provider.ts'
import type { ScriptInput } from '../../../samples/provider/script.ts'
import { cacheFolder } from '../../../test/support/base-image.ts'
import { gatewayCounters } from '../../gateway/counters.ts'
import { SANDBOX_GATEWAY_URL, sandboxPort } from '../../gateway/dial.ts'
import { startGateway } from '../../gateway/gateway.ts'
import { closeGrant, openGrant, readGrant } from '../../gateway/grants.ts'
import { memoryLedger } from '../../gateway/memory-ledger.ts'
import { newId } from '../../platform/ids.ts'
import { createLog } from '../../platform/log.ts'
import { createMetrics } from '../../platform/metrics.ts'
import { createOpenStream } from '../../platform/outbound/stream.ts'
import type { ModelPlace } from '../../trials/bench.ts'
import type { Harness } from '../harness.ts'
import type { Level, Protocol, WireLevel } from '../model-access.ts'

/** A key that must be found nowhere but at the provider. */
export const KEY = 'sk-canary-7f3a9c51d0e84b26'

/** One thing to say to one model, in one protocol. */
export type Saying = { protocol: Protocol; model: string; level: Level; wireLevel: WireLevel }

const PRICES = { input: 3, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75, cacheWrite1h: 6 }
const RETRY = { triesMax: 4, totalMs: 20_000, firstMs: 10, pauseMaxMs: 5_000, quietMs: 100 }
const SIZES = { contextTokens: 200_000, outputTokens: 32_000 }

/** The gateway between sandboxes and a provider that does what a script says. */
export async function openModelBench() {
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
      counters: gatewayCounters(createMetrics()),
    },
    { host: '127.0.0.1', port: 0 },
    { retry: RETRY },
  )
  undo.defer(() => gateway.stop(0))

  /** A model for one trial, which costs at most so much. */
  const open = async (harness: Harness, saying: Saying, script: ScriptInput, budgetMicros: number | null = null) => {
    provider.forget()
    provider.setScript({ keys: [KEY], ...script })
    const { protocol, model, wireLevel } = saying
    const terms = { catalogId: 'test/model', provider: 'test', model, baseUrl: null, protocols: [protocol], wireLevel }
    const more = {
      outputTokens: SIZES.outputTokens,
      prices: PRICES,
      helpers: [...harness.helpers],
      recordBodies: false,
    }
    const grant = await openGrant(ledger, {
      ...{ workspaceId: newId(), subject: newId(), credentialId: newId(), budgetMicros, callsMax: 1000 },
      terms: { ...terms, ...more },
      expiresAt: new Date(Date.now() + 3_600_000),
    })
    const port = sandboxPort({ gatewayUrl: gateway.url, listener: grant.listener })
    const traits = { model, provider: 'test', protocols: [protocol], ...SIZES }
    const place: ModelPlace = {
      port,
      access: { ...traits, ...saying, baseUrl: SANDBOX_GATEWAY_URL, token: grant.token },
      async fault() {
        const { lastFailure } = await readGrant(ledger, grant.id)
        const isFault = lastFailure && !lastFailure.isRecovered && ['credential', 'model'].includes(lastFailure.kind)
        return isFault ? `The model could not be had: ${lastFailure.kind}.` : undefined
      },
    }
    return { place, totals: () => closeGrant(ledger, grant.id) }
  }

  const running = undo.move()
  return { provider, open, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

export type ModelBench = Awaited<ReturnType<typeof openModelBench>>

/** Kept from one run to the next. */
export const bundlesFolder = async (): Promise<string> => join(await cacheFolder(), 'harnesses')
