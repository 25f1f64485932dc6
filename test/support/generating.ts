import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as schema from '../../src/batches/schema.ts'
import { createCredential } from '../../src/credentials/schema.ts'
import { connectRepository } from '../../src/repos/schema.ts'
import type { Services } from '../../src/services.ts'
import type { Stages } from '../../src/taskgen/pipeline/stage.ts'
import { type TestApp, testApp } from './app.ts'
import { type HistoryCommit, writeHistory } from './histories.ts'
import { createScriptedStages, type ScriptedStages } from './taskgen/scripted-stages.ts'
import { testWorker } from './worker.ts'

export type Counts = { easy: number; medium: number; hard: number }

/** Builds a pull request with a test, this many changed source files and this many lines in each. */
function pullRequest(number: number, files: number, lines: number, title = `Change ${number}`): HistoryCommit {
  const source = Array.from({ length: files }, (_, place) => [
    `src/part${number}_${place}.py`,
    Array.from({ length: lines }, (_, line) => `value_${line} = ${number}\n`).join(''),
  ])
  const test = `def test_${number}():\n    from src import part${number}_0\n    assert part${number}_0.value_0 == ${number}\n`
  return {
    message: `${title} (#${number})`,
    files: { ...Object.fromEntries(source), [`tests/test_${number}.py`]: test },
  }
}

const SIZES: Record<keyof Counts, [files: number, lines: number]> = { easy: [1, 5], medium: [2, 30], hard: [6, 10] }

/** Builds a history with this many candidates of each difficulty, and one pull request that is not a candidate. */
export function buildHistory(counts: Counts, name: string): HistoryCommit[] {
  let number = 0
  const changes = (['easy', 'medium', 'hard'] as const).flatMap((difficulty) =>
    Array.from({ length: counts[difficulty] }, () => {
      number += 1
      return pullRequest(number, ...SIZES[difficulty], `A change that is ${difficulty} ${number}`)
    }),
  )
  return [
    { message: 'start', files: { 'README.md': `${name}\n` } },
    ...changes,
    { message: 'Say more (#900)', files: { 'README.md': 'Demo, with more words.\n' } },
  ]
}

/** Starts a service that can read repositories from a local folder. */
export async function startGenerationApp(environment: Record<string, string> = {}) {
  const root = mkdtempSync(join(tmpdir(), 'assay-histories-'))
  const app = await testApp({ ASSAY_GIT_ALLOW: root, ...environment })
  const dispose = app[Symbol.asyncDispose]
  return {
    ...app,
    root,
    async [Symbol.asyncDispose]() {
      await dispose()
      rmSync(root, { recursive: true, force: true })
    },
  }
}
export type GenerationApp = TestApp & { root: string }

function writerOf(changes: GenerationLabOptions<Stages>['changes'], name: string): Write {
  if (typeof changes === 'function') return changes
  return (folder) => writeHistory(folder, Array.isArray(changes) ? changes : buildHistory(changes, name))
}

/** Reports a sandbox as usable, as a worker does. */
const OFFER_EVERY_MS = 10_000

let repositories = 0

type Write = (folder: string) => Promise<void>
type GenerationLabOptions<S> = { changes: Counts | HistoryCommit[] | Write; stages?: S; sandbox?: string }

/** Opens a repository with a history, a model, an available sandbox and a worker that runs on demand. */
export async function openGenerationLab<S extends Stages = ScriptedStages>(
  app: GenerationApp,
  { changes, stages: given, sandbox = 'local' }: GenerationLabOptions<S>,
  more: Partial<Services> = {},
) {
  const place = { owner: 'lab', name: `made-${++repositories}` }
  const url = join(app.root, place.name)
  const stages = given ?? (createScriptedStages() as Stages as S)
  await writerOf(changes, place.name)(url)
  await app.call(connectRepository, { params: place, body: { source: { kind: 'git', url } } })
  const worker = await testWorker(app, { stages, ...more }, sandbox)
  let isOffered = true
  // Worker capabilities expire unless they are reported again.
  const offerAgain = async () => (isOffered ? worker.offer() : undefined)
  const credential = await app.call(createCredential, {
    body: { kind: 'model', provider: 'anthropic', name: 'Team key', secret: { apiKey: 'sk-ant-0123456789abcdef' } },
  })
  const at = (runId: string, params: object = {}) => ({ params: { ...place, runId, ...params } })
  const options = async () => (await app.call(schema.readGenerationOptions, { params: place })).body
  const read = async (runId: string) => (await app.call(schema.readBatch, at(runId))).body
  const tasks = async (runId: string) => (await app.call(schema.listBatchTasks, at(runId))).body.tasks
  const create = async (counts: Partial<Counts>, over: object = {}) => {
    await offerAgain()
    const { defaults } = await options()
    const candidateCounts = { easy: 0, medium: 0, hard: 0, ...counts }
    return app.call(schema.createBatch, { params: place, body: { candidateCounts, generation: defaults, ...over } })
  }
  const work = async () => {
    await offerAgain()
    const repeating = setInterval(() => void offerAgain(), OFFER_EVERY_MS)
    try {
      await worker.work()
    } finally {
      clearInterval(repeating)
    }
  }
  return {
    place,
    url,
    tools: worker.tools,
    stages,
    at,
    options,
    read,
    tasks,
    create,
    work,
    credentialId: credential.body?.id,
    async offer() {
      isOffered = true
      await worker.offer()
    },
    /** Withdraws the sandbox. */
    async withdraw() {
      isOffered = false
      await worker.withdraw()
    },
    task: async (runId: string, taskId: string) => (await app.call(schema.readBatchTask, at(runId, { taskId }))).body,
    resume: (runId: string, body: object = {}) => app.call(schema.resumeBatch, { ...at(runId), body }),
    cancel: (runId: string) => app.call(schema.cancelBatch, at(runId)),
    /** Makes every deferred job due now. */
    hurry: () => app.database.pool.query('update jobs set run_at = now()'),
    /** Creates a batch and runs the worker until it is done. */
    async made(counts: Partial<Counts>, over: object = {}) {
      const { body } = await create(counts, over)
      await work()
      return { runId: body.runId as string, run: await read(body.runId), tasks: await tasks(body.runId) }
    },
  }
}
export type GenerationLab = Awaited<ReturnType<typeof openGenerationLab<ScriptedStages>>>
