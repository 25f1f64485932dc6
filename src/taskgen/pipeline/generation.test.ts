import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { smallTask } from '../../../test/support/archives.ts'
import {
  buildHistory,
  type GenerationApp,
  openGenerationLab,
  startGenerationApp,
} from '../../../test/support/generating.ts'
import { writeHistory } from '../../../test/support/histories.ts'
import { createScriptedStages, doneAt, type ScriptedStages } from '../../../test/support/taskgen/scripted-stages.ts'
import { putBatchTaskFile } from '../../batches/schema.ts'
import { GENERATED_LIMITS } from '../../harbor/limits.ts'
import { SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import { done, reject } from '../stage-result.ts'

let app: GenerationApp & AsyncDisposable
beforeAll(async () => {
  app = await startGenerationApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

test('creates tasks from the newest pull requests of each difficulty with evidence of every stage', async () => {
  const lab = await openGenerationLab(app, { changes: { easy: 3, medium: 2, hard: 1 } })
  const created = await lab.create({ easy: 2, medium: 1, hard: 1 })
  expect(created).toMatchObject({ status: 202, body: { run: { state: 'queued', counts: { discovered: 0 } } } })
  expect(created.body.runId).toBe(created.body.run.runId)
  await lab.work()
  const run = await lab.read(created.body.runId)
  expect(run).toMatchObject({
    state: 'completed',
    candidateCounts: { easy: 2, medium: 1, hard: 1 },
    generation: { sandbox: 'local', harborEnvironment: 'local', modelAccess: 'credential' },
    counts: { discovered: 6, screened: 5, executed: 4, authored: 4, validated: 4, verified: 4, ready: 4, rejected: 0 },
    byDifficulty: { easy: { requested: 2, selected: 2, ready: 2 }, hard: { requested: 1, selected: 1, ready: 1 } },
    shortfall: 0,
    rejections: {},
    costUsd: 0,
    warnings: [],
  })
  const tasks = await lab.tasks(created.body.runId)
  expect(tasks.map(({ pullRequest }: { pullRequest: { number: number } }) => pullRequest.number).toSorted()).toEqual([
    2, 3, 5, 6,
  ])
  const [first] = tasks
  expect(first).toMatchObject({ state: 'ready', stage: null, decision: null, concerns: [] })
  expect(first.taskId).toMatch(/^[a-z0-9]{10}$/)
  const task = await lab.task(created.body.runId, first.taskId)
  expect(task.evidence.stages.map(({ stage }: { stage: string }) => stage)).toEqual([
    'split',
    'environment',
    'execution',
    'authoring',
    'lint',
    'assembly',
    'validation',
    'review',
    'difficulty',
  ])
  expect(task.instruction).toContain('Do as A change that is')
  expect(task.files.map(({ path }: { path: string }) => path)).toContain('tests/test.sh')
})

const EASY = { easy: 1, medium: 0, hard: 0 }

test('reports a shortage of candidates and does not substitute others', async () => {
  const lab = await openGenerationLab(app, { changes: { easy: 4, medium: 0, hard: 1 } })
  const { run, tasks } = await lab.made({ easy: 1, medium: 3, hard: 2 })
  expect(run).toMatchObject({
    state: 'completed',
    shortfall: 4,
    counts: { ready: 2 },
    byDifficulty: { easy: { selected: 1 }, medium: { requested: 3, selected: 0 }, hard: { requested: 2, selected: 1 } },
  })
  expect(tasks).toHaveLength(2)
  expect(run.warnings[0]).toMatch(
    /^4 fewer candidates than requested. 6 pull requests were read. Excluded: 1 docs_only/,
  )
})

test('a later batch uses other pull requests unless repeats are allowed', async () => {
  const lab = await openGenerationLab(app, { changes: { easy: 3, medium: 0, hard: 0 } })
  const numbers = (tasks: { pullRequest: { number: number } }[]) => tasks.map(({ pullRequest }) => pullRequest.number)
  const first = await lab.made({ easy: 2 })
  expect(numbers(first.tasks).toSorted()).toEqual([2, 3])
  const second = await lab.made({ easy: 2 })
  expect(numbers(second.tasks)).toEqual([1])
  expect(second.run.warnings[0]).toContain('2 tried before')
  const before = lab.stages.runs.length
  const again = await lab.made({ easy: 3 }, { again: true })
  expect(numbers(again.tasks).toSorted()).toEqual([1, 2, 3])
  // What the same change came to is taken over; what carries the id of the task is made anew.
  const kinds = new Set(lab.stages.runs.slice(before).map(({ stage }) => stage))
  expect([...kinds].toSorted()).toEqual(['assembly', 'difficulty', 'review', 'validation'])
  const detail = await lab.task(again.runId, again.tasks[0].taskId)
  expect(detail.evidence.stages[0]).toMatchObject({ stage: 'split', reused: true })
})

test('a rejected task has a reason and a stage; the others continue', async () => {
  const stages = createScriptedStages({
    execution: ({ candidate }) =>
      candidate.number === 2 ? reject('no_f2p', 'No test\u0000 fails before the change.') : (undefined as never),
  })
  const lab = await openGenerationLab(app, { changes: { easy: 3, medium: 0, hard: 0 }, stages })
  const { run, tasks } = await lab.made({ easy: 3 })
  expect(run).toMatchObject({
    state: 'completed',
    rejections: { no_f2p: 1 },
    counts: { executed: 2, ready: 2, rejected: 1 },
  })
  const rejected = tasks.find(({ state }: { state: string }) => state === 'rejected')
  expect(rejected).toMatchObject({ stage: 'execution', digest: null, rejection: { reason: 'no_f2p' } })
  const shown = await lab.task(run.runId, rejected.taskId)
  expect(shown.evidence.stages.map(({ stage }: { stage: string }) => stage)).toEqual(['split', 'environment'])
})

test('shows the review that rejected a task until the task is edited', async () => {
  const verdict = { decision: { kind: 'rejected' }, passes: [{ quote: 'as\u0000 before', minutes: undefined }] }
  const stages = createScriptedStages({
    review: ({ edited }) =>
      edited === null ? reject('underspecified', 'Nobody could know.', verdict) : (undefined as never),
  })
  const lab = await openGenerationLab(app, { changes: EASY, stages })
  const { runId, tasks } = await lab.made({ easy: 1 })
  expect(tasks).toMatchObject([{ state: 'rejected', stage: 'review', rejection: { reason: 'underspecified' } }])
  const [{ taskId }] = tasks
  const shown = await lab.task(runId, taskId)
  expect(shown.rejection).toEqual({ reason: 'underspecified', detail: 'Nobody could know.' })
  expect(shown.evidence.rejection).toEqual({ decision: { kind: 'rejected' }, passes: [{ quote: 'as\ufffd before' }] })
  const at = lab.at(runId, { taskId, path: 'instruction.md' })
  await app.call(putBatchTaskFile, { ...at, body: { content: 'Say it all.\n' }, headers: { 'if-match': '*' } })
  await lab.work()
  const after = await lab.task(runId, taskId)
  expect(after).toMatchObject({ state: 'ready', instruction: 'Say it all.\n' })
  expect(after.evidence).not.toHaveProperty('rejection')
})

test('shows the safety findings of an assembled task that is refused', async () => {
  const stages = createScriptedStages({
    assembly: async (state, { target }) => {
      const dockerfile = 'FROM debian\nRUN curl http://169.254.169.254/latest\n'
      for (const [path, content] of Object.entries(smallTask({ 'environment/Dockerfile': dockerfile }))) {
        await mkdir(dirname(join(target, path)), { recursive: true })
        await writeFile(join(target, path), content)
      }
      return done(doneAt('assembly', state))
    },
  })
  const lab = await openGenerationLab(app, { changes: EASY, stages })
  const { runId, tasks } = await lab.made({ easy: 1 })
  expect(tasks).toMatchObject([{ state: 'rejected', stage: 'assembly', rejection: { reason: 'unsafe_task' } }])
  const { evidence } = await lab.task(runId, tasks[0].taskId)
  expect(evidence.rejection.findings).toContainEqual(expect.objectContaining({ severity: 'block' }))
})

/** Answers what the script says, one after another, then as usual. */
const inTurn =
  (...answers: (() => unknown)[]) =>
  () =>
    answers.shift()?.() as never

test('defers a task, waits if no other task can run, and continues by itself', async () => {
  const later = { kind: 'deferred' as const, reason: 'rate_limit' as const, detail: '429', retryAfterMs: 60_000 }
  const stages = createScriptedStages({ authoring: inTurn(() => later) })
  const lab = await openGenerationLab(app, { changes: { easy: 2, medium: 0, hard: 0 }, stages })
  const { run, runId, tasks } = await lab.made({ easy: 2 })
  expect(run).toMatchObject({
    state: 'waiting',
    waiting: { reason: 'rate_limit', detail: '429' },
    counts: { ready: 1, deferred: 1 },
  })
  expect(Date.parse(run.waiting.until)).toBeGreaterThan(Date.now() + 30_000)
  const waiting = tasks.find(({ deferred }: { deferred?: object }) => deferred)
  expect(waiting).toMatchObject({ state: 'making', stage: 'authoring', deferred: { reason: 'rate_limit' } })
  await lab.hurry()
  await lab.work()
  const after = await lab.read(runId)
  expect(after).toMatchObject({ state: 'completed', counts: { ready: 2, deferred: 0 } })
  expect(after).not.toHaveProperty('waiting')
})

test('waits without a sandbox and continues when there is one', async () => {
  const lab = await openGenerationLab(app, { changes: EASY }, { waits: { workerMs: 0, retryMs: 0, sandboxMs: 60_000 } })
  const { runId } = (await lab.create({ easy: 1 })).body
  await lab.withdraw()
  await app.database.pool.query('delete from sandbox_offers')
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({
    state: 'waiting',
    waiting: { reason: 'sandbox', detail: 'No worker offers local.' },
    counts: { deferred: 1 },
  })
  expect((await lab.tasks(runId))[0]).toMatchObject({ state: 'making', stage: 'environment' })
  await lab.offer()
  expect((await lab.resume(runId)).status).toBe(202)
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', counts: { ready: 1 } })
})

const broken = () => {
  throw new SandboxUnavailable('It does not start.')
}

test('defers when the sandbox is unavailable, rejects when only this task breaks it, and retries on resume', async () => {
  const stages = createScriptedStages({ execution: inTurn(broken, broken, broken, broken) })
  let isWell = false
  const findProvider = () => ({ selfTest: async () => (isWell ? {} : broken()) }) as never
  const lab = await openGenerationLab(
    app,
    { changes: EASY, stages },
    { findProvider, waits: { workerMs: 0, retryMs: 0, sandboxMs: 60_000 } },
  )
  const { run, runId } = await lab.made({ easy: 1 })
  expect(run).toMatchObject({ state: 'waiting', waiting: { reason: 'sandbox', detail: 'It does not start.' } })
  isWell = true
  for (let tries = 0; tries < 3; tries++) {
    await lab.hurry()
    await lab.work()
  }
  const rejected = await lab.read(runId)
  expect(rejected).toMatchObject({ state: 'completed', rejections: { environment_failed: 1 } })
  expect((await lab.resume(runId)).body.state).toBe('queued')
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', counts: { ready: 1, rejected: 0 } })
})

const fullDisk = () => {
  throw new Error('It cannot be stored.', { cause: Object.assign(new Error('No space left'), { code: 'ENOSPC' }) })
}

test('a full disk defers a stage, however often it fails', async () => {
  const stages = createScriptedStages({ execution: inTurn(...Array.from({ length: 6 }, () => fullDisk)) })
  const lab = await openGenerationLab(
    app,
    { changes: EASY, stages },
    { waits: { workerMs: 0, retryMs: 0, sandboxMs: 60_000 } },
  )
  const { runId } = await lab.made({ easy: 1 })
  for (let tries = 0; tries < 5; tries++) {
    expect(await lab.read(runId)).toMatchObject({ state: 'waiting', waiting: { reason: 'sandbox' } })
    await lab.hurry()
    await lab.work()
  }
  await lab.hurry()
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', counts: { ready: 1, rejected: 0 } })
})

test('a canceled batch stops, keeps its results, and continues from there', async () => {
  let cancel = async () => {}
  const stages: ScriptedStages = createScriptedStages({
    execution: async () => {
      await cancel()
      cancel = async () => {}
      return undefined as never
    },
  })
  const lab = await openGenerationLab(app, { changes: { easy: 2, medium: 0, hard: 0 }, stages })
  const { runId } = (await lab.create({ easy: 2 })).body
  cancel = async () => void (await lab.cancel(runId))
  await lab.work()
  const canceled = await lab.read(runId)
  expect(canceled).toMatchObject({ state: 'canceled', counts: { ready: 0 } })
  expect((await lab.cancel(runId)).body).toEqual(canceled)
  const before = stages.runs.length
  expect((await lab.resume(runId)).body.state).toBe('queued')
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', counts: { ready: 2 } })
  const splits = stages.runs.slice(before).filter(({ stage }) => stage === 'split')
  expect(splits).toEqual([])
})

test('discovers candidates on resume if a batch was canceled before it started', async () => {
  const lab = await openGenerationLab(app, { changes: EASY })
  const { runId } = (await lab.create({ easy: 1 })).body
  expect((await lab.cancel(runId)).body.state).toBe('canceled')
  await lab.work()
  expect(await lab.tasks(runId)).toEqual([])
  await lab.resume(runId)
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', counts: { ready: 1 } })
})

test('rejects candidates that a rewritten history no longer contains', async () => {
  const stages = createScriptedStages({
    split: async (_, { repository }) => {
      // Another worker, which has no mirror yet, after a force-push.
      await rm(join(app.tools.config.dataFolder, 'mirrors'), { recursive: true })
      await writeHistory(lab.url, buildHistory(EASY, 'rewritten'))
      await repository()
      return undefined as never
    },
  })
  const lab = await openGenerationLab(app, { changes: EASY, stages })
  const { run, tasks } = await lab.made({ easy: 1 })
  expect(run).toMatchObject({ state: 'completed', rejections: { history_rewritten: 1 } })
  expect(tasks[0].rejection.detail).toMatch(/^The repository no longer has [0-9a-f]{40}/)
})

test('reports no candidates for an empty repository and one without tests', async () => {
  const empty = await openGenerationLab(app, { changes: [] })
  expect((await empty.made({ easy: 1 })).run).toMatchObject({
    state: 'completed',
    shortfall: 1,
    counts: { discovered: 0 },
    warnings: ['No merged pull request was found in the default branch.'],
  })
  const files = { 'src/a.py': 'a = 1\nb = 2\nc = 3\nd = 4\n' }
  const bare = await openGenerationLab(app, {
    changes: [
      { message: 'start', files: {} },
      { message: 'Add it (#1)', files },
    ],
  })
  const { run } = await bare.made({ easy: 1 })
  expect(run).toMatchObject({ state: 'completed', shortfall: 1, counts: { discovered: 1, screened: 0 } })
  expect(run.warnings[0]).toContain('1 no_tests')
})

test('a job waits for the resources that its stage needs', async () => {
  const lab = await openGenerationLab(app, { changes: EASY })
  const { run } = (await lab.create({ easy: 1 })).body
  const { sandboxCredentialId, modelCredentialId } = run.generation
  const seen: Record<string, unknown> = {}
  lab.stages.execution.run = async () => {
    const { rows } = await app.database.pool.query(
      `select type, limit_keys, memory_mb from jobs where state = 'running'`,
    )
    Object.assign(seen, rows[0])
    return reject('enough', 'seen')
  }
  await lab.work()
  expect(seen).toEqual({
    type: 'batch.stage.local',
    limit_keys: [`sandbox ${sandboxCredentialId}`],
    memory_mb: GENERATED_LIMITS.memoryMb,
  })
  expect(modelCredentialId).toMatch(/^[0-9a-f-]{36}$/)
})

test('retries a stage that throws and finally rejects only its task', async () => {
  const stages = createScriptedStages({
    lint: ({ candidate }) => {
      if (candidate.number === 1) throw new Error('a bug')
      return undefined as never
    },
  })
  const lab = await openGenerationLab(app, { changes: { easy: 2, medium: 0, hard: 0 }, stages })
  const { runId } = await lab.made({ easy: 2 })
  for (let tries = 0; tries < 3; tries++) {
    await lab.hurry()
    await lab.work()
  }
  expect(await lab.read(runId)).toMatchObject({
    state: 'completed',
    rejections: { internal_error: 1 },
    counts: { ready: 1 },
  })
})
