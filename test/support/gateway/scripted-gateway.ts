import { startProvider } from '../../../samples/provider/provider.ts'
import { createGatewayCounters } from '../../../src/gateway/call-context.ts'
import { startGateway } from '../../../src/gateway/gateway.ts'
import { createMemoryLedger } from '../../../src/gateway/memory-ledger.ts'
import type { GatewayOptions } from '../../../src/gateway/options.ts'
import { createLog } from '../../../src/platform/log.ts'
import { createMetrics } from '../../../src/platform/metrics.ts'
import { createOpenStream } from '../../../src/platform/outbound/open-stream.ts'

/** Starts a real gateway with a ledger in memory in front of the scripted provider. */
export async function startScriptedGateway(key: string, options: Partial<GatewayOptions>) {
  await using undo = new AsyncDisposableStack()
  const provider = undo.use(await startProvider())
  const ledger = createMemoryLedger()
  const gateway = await startGateway(
    {
      ledger,
      openStream: createOpenStream(),
      openSecret: async () => ({ apiKey: key }),
      resolveUpstream: () => ({ url: provider.url, trust: 'operator' }),
      log: createLog('silent'),
      counters: createGatewayCounters(createMetrics()),
    },
    { host: '127.0.0.1', port: 0 },
    options,
  )
  undo.defer(() => gateway.stop(0))
  const running = undo.move()
  return { provider, ledger, gatewayUrl: gateway.url, [Symbol.asyncDispose]: () => running.disposeAsync() }
}
