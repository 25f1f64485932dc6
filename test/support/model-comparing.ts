import { once } from 'node:events'
import { createServer } from 'node:net'
import { request } from 'undici'
import { startProvider } from '../../samples/provider/provider.ts'
import type { ScriptInput } from '../../samples/provider/script.ts'
import type { TrialRunRequest } from '../../src/comparisons/trials/engine.ts'
import { startModelGateway } from '../../src/main.ts'
import type { Port } from '../../src/sandboxes/sandbox.ts'
import type { Services } from '../../src/services.ts'
import type { TrialRecord } from '../../src/trials/record.ts'
import { type TestApp, testApp } from './app.ts'
import {
  type ComparisonLab,
  createScriptedEngine,
  openComparisonLab,
  openRepositoryComparisonLab,
  type ScriptedEngine,
} from './comparisons.ts'

export const CANARY = 'sk-canary-0123456789abcdef'
const MODEL = 'anthropic/claude-sonnet-5'
const HARNESS = 'claude-code'

/** Replaces the program in the sandbox: calls the model and returns the record of the trial. */
export type TrialScript = (ask: Ask, order: TrialRunRequest) => Promise<Partial<TrialRecord>>
type Ask = (over?: { model?: string; headers?: Record<string, string> }) => Promise<number>

/** Opens a service with a real gateway in front of a scripted provider. The test scripts the trials. */
export async function openModelComparisonLab(
  work: TrialScript,
  script: ScriptInput = {},
  environment: Record<string, string> = {},
) {
  return openLab(work, script, openComparisonLab, environment)
}

/** Opens a model comparison lab on approved tasks of a repository. */
export async function openRepositoryModelComparisonLab(work: TrialScript, script: ScriptInput = {}) {
  return openLab(work, script, openRepositoryComparisonLab)
}

type Open<S> = (app: TestApp, engine: ScriptedEngine, more: Partial<Services>) => Promise<S>

async function openLab<S extends ComparisonLab>(
  work: TrialScript,
  script: ScriptInput,
  open: Open<S>,
  environment: Record<string, string> = {},
) {
  const provider = await startProvider(script)
  const app = await testApp({
    ANTHROPIC_API_KEY: CANARY,
    ASSAY_GATEWAY_UPSTREAM_ANTHROPIC: provider.url,
    ...environment,
  })
  const gateway = await startModelGateway(
    app.tools,
    { host: '127.0.0.1', port: 0 },
    {
      retry: { triesMax: 2, totalMs: 1000, firstMs: 1, pauseMaxMs: 5, quietMs: 20 },
    },
  )
  const engine = createScriptedEngine(async (order) => {
    if (!order.model) return {}
    await using way = await openLoopbackPort(order.model.port)
    return await work((over) => sendModelRequest(way.url, order, over), order)
  })
  const shop = await open(app, engine, { gatewayUrl: () => gateway.url })
  const { body: catalog } = await app.call(shop.endpoints.catalog, { params: shop.params })
  const model = catalog.models.find(({ catalogId }: { catalogId: string }) => catalogId === MODEL)
  const credentialId: string = model.credentials[0].id
  return {
    ...shop,
    app,
    provider,
    credentialId,
    engine,
    models: [{ catalogId: MODEL, credentialId, harnesses: [HARNESS], reasoningLevel: 'high' }],
    async [Symbol.asyncDispose]() {
      await gateway.stop(1000)
      await provider[Symbol.asyncDispose]()
      await app[Symbol.asyncDispose]()
    },
  }
}

/** Serves the gateway port of a sandbox on the loopback interface. */
async function openLoopbackPort(port: Port) {
  const server = createServer({ allowHalfOpen: true }, port.onConnection)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`,
    [Symbol.asyncDispose]: async () => void server.close(),
  }
}

async function sendModelRequest(
  url: string,
  { model }: TrialRunRequest,
  { model: name, headers = {} }: NonNullable<Parameters<Ask>[0]> = {},
): Promise<number> {
  const { access } = model ?? {}
  const { statusCode, body } = await request(`${url}/v1/messages`, {
    method: 'POST',
    reset: true,
    headers: { 'content-type': 'application/json', 'x-api-key': access?.token ?? '', ...headers },
    body: JSON.stringify({
      model: name ?? access?.model,
      max_tokens: 1200,
      messages: [{ role: 'user', content: 'Work.' }],
      thinking: { type: 'adaptive' },
      output_config: access?.wireLevel,
    }),
  })
  await body.dump()
  return statusCode
}
