import { startProvider } from '../../samples/provider/provider.ts'
import type { ScriptInput } from '../../samples/provider/script.ts'
import { startModelGateway } from '../../src/main.ts'
import { type Counts, openGenerationLab, startGenerationApp } from './generating.ts'
import type { ScriptedStages } from './taskgen/scripted-stages.ts'

const USAGE = { input: 1000, output: 100 }

/** Starts a service that can read local repositories, with a real gateway in front of a scripted provider. */
export async function startAppWithModels(script: ScriptInput) {
  await using undo = new AsyncDisposableStack()
  const provider = undo.use(await startProvider(script))
  const app = undo.use(await startGenerationApp({ ASSAY_GATEWAY_UPSTREAM_ANTHROPIC: provider.url }))
  const gateway = await startModelGateway(app.tools, { host: '127.0.0.1', port: 0 })
  undo.defer(() => gateway.stop(1000))
  const open = undo.move()
  return { app, provider, gateway, [Symbol.asyncDispose]: () => open.disposeAsync() }
}

/** Opens a repository and a model that gives the same answer to every request. */
export async function openModelGenerationLab(changes: Counts, stages: ScriptedStages, usage: object = USAGE) {
  await using undo = new AsyncDisposableStack()
  const tasks = [{ match: '', turns: [{ say: 'Well.', usage }], endless: true }]
  const { app, provider, gateway } = undo.use(await startAppWithModels({ tasks }))
  const lab = await openGenerationLab(app, { changes, stages }, { gatewayUrl: () => gateway.url })
  const open = undo.move()
  return {
    ...lab,
    app,
    provider,
    gateway,
    /** Lists the grants and whether their spend was counted. */
    async grants(): Promise<{ spent: number; uncounted: number; grants: number }> {
      const { rows } = await app.database.pool.query(
        `select count(*)::int as grants, coalesce(sum(spent_micros), 0)::int as spent,
          count(*) filter (where closed_at is null or counted_at is null)::int as uncounted from gateway_grants`,
      )
      return rows[0]
    },
    [Symbol.asyncDispose]: () => open.disposeAsync(),
  }
}
