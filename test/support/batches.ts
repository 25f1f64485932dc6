import * as schema from '../../src/batches/schema.ts'
import type { ValidationOutcome, ValidationRequest, Validator } from '../../src/batches/validate.ts'
import { connectRepository } from '../../src/repos/schema.ts'
import type { Services } from '../../src/services.ts'
import type { TestApp } from './app.ts'
import { buildArchive } from './archives.ts'
import { testWorker } from './worker.ts'

const outcome = { state: 'passed', class: 'verified', reward: 1, error: null }

export const VALID: Extract<ValidationOutcome, { kind: 'valid' }> = {
  kind: 'valid',
  calibration: {
    sandbox: 'local',
    verifyMode: 'workspace',
    strength: 'standard',
    winners: [],
    attempts: [{ verifyMode: 'workspace', oracle: outcome, nop: { ...outcome, state: 'failed', reward: 0 } }],
    cheats: [{ id: 'exit-zero', what: 'ends the tests early', outcome: 'lost', tries: 1 }],
  },
}

/** Creates a validator without sandboxes. Every task is valid unless the test overrides it. */
export const createScriptedValidator =
  (
    judge: (order: ValidationRequest, signal: AbortSignal) => ValidationOutcome | Promise<ValidationOutcome> = () =>
      VALID,
  ): Validator =>
  async (order, signal) =>
    judge(order, signal)

let repositories = 0

/** Opens a repository with an available sandbox and a worker that runs on demand. */
export async function openImportLab(
  app: TestApp,
  validate: Validator = createScriptedValidator(),
  more: Partial<Services> = {},
) {
  const place = { owner: 'lab', name: `demo-${++repositories}` }
  const source = { kind: 'git', url: 'https://git.example.org/demo.git' } as const
  const { body: repository } = await app.call(connectRepository, { params: place, body: { source } })
  const worker = await testWorker(app, { validate, ...more })
  const at = (runId: string, params: object = {}) => ({ params: { ...place, runId, ...params } })
  const send = (archive: Uint8Array, headers: Record<string, string> = {}) =>
    app.call(schema.importBatch, { params: place, upload: archive, headers })
  const read = async (runId: string) => (await app.call(schema.readBatch, at(runId))).body
  const tasks = async (runId: string) => (await app.call(schema.listBatchTasks, at(runId))).body.tasks
  return {
    ...worker,
    place,
    repository,
    at,
    send,
    read,
    tasks,
    task: async (runId: string, taskId: string) => (await app.call(schema.readBatchTask, at(runId, { taskId }))).body,
    decide: (runId: string, taskId: string, body: object) =>
      app.call(schema.decideTask, { ...at(runId, { taskId }), body: { decision: 'approved', digest: '', ...body } }),
    /** Imports an archive and runs the worker until it is done. */
    async imported(folders: Parameters<typeof buildArchive>[0]) {
      const { runId } = (await send(buildArchive(folders))).body
      await worker.work()
      return { runId, run: await read(runId), tasks: await tasks(runId) }
    },
  }
}
