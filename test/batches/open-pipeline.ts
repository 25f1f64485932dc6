import { mkdir } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { extract } from 'tar'
import type { BatchRun, BatchTask, BatchTaskDetail } from '../../src/batches/schema.ts'
import { STAGES, type Stage, type StageName, type Stages } from '../../src/taskgen/pipeline/stage.ts'
import { realStages } from '../../src/taskgen/pipeline/stages/stages.ts'
import { reject } from '../../src/taskgen/stage-result.ts'
import type { TrialCounts } from '../../src/taskgen/validation/validate-task.ts'
import { openGenerationLab } from '../support/generating.ts'
import { startAppWithModels } from '../support/generating-models.ts'
import { listCandidates, type SampleRepository, writeRepository } from '../support/repositories/repository.ts'
import { drafts } from '../support/repositories/scripts.ts'
import { openBuilder } from '../support/taskgen/image-builders.ts'
import { NO_WRONG_SOLUTION, said } from '../support/taskgen/scripted-answers.ts'
import { scriptFor } from './scripted-models.ts'

const FEW: TrialCounts = { nop: 1, oracle: 1, oracleAll: 1 }

type PipelineOptions = {
  /** Numbers of the pull requests to process. Others are rejected immediately. */
  only?: readonly number[] | undefined
  /** Receives a line when a stage ends. */
  tell?: (line: string) => void
}

/** Starts a service and a worker with a Docker engine, and completes one batch of all candidates of a repository. */
export async function openPipeline(repository: SampleRepository, options: PipelineOptions = {}) {
  await using undo = new AsyncDisposableStack()
  const builder = undo.use(await openBuilder('docker'))
  const { app, gateway } = undo.use(await startAppWithModels(scriptOf(repository)))
  const shop = await openGenerationLab(
    app,
    {
      changes: (folder) => writeRepository(folder, repository),
      stages: watched(realStages(FEW), options),
      sandbox: 'docker',
    },
    { gatewayUrl: () => gateway.url, findProvider: () => builder.provider },
  )
  const { runId, run, tasks }: { runId: string; run: BatchRun; tasks: BatchTask[] } = await shop.made(
    countsOf(repository),
  )
  const running = undo.move()
  return {
    run,
    tasks,
    fates: Object.fromEntries(tasks.map((each) => [each.pullRequest?.number, each.rejection?.reason ?? each.state])),
    read: (): Promise<BatchRun> => shop.read(runId),
    task: (taskId: string): Promise<BatchTaskDetail> => shop.task(runId, taskId),
    /** Downloads the files of a task. */
    async unpack(taskId: string, folder: string): Promise<void> {
      const path = `/api/orgs/local/repos/lab/${shop.place.name}/batches/${runId}/tasks/${taskId}/archive`
      const answer = await fetch(`${app.url}${path}`, { headers: { authorization: `Bearer ${app.adminKey}` } })
      if (!answer.ok || !answer.body) throw new Error(`${path} answered ${answer.status}.`)
      await mkdir(folder, { recursive: true })
      await pipeline(Readable.fromWeb(answer.body), extract({ cwd: folder }))
    },
    /** Sums the cost from the recorded calls. */
    async billed(): Promise<number> {
      const { rows } = await app.database.pool.query('select sum(cost_micros)::bigint as micros from gateway_calls')
      return Number(rows[0].micros) / 1e6
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}
export type Pipeline = Awaited<ReturnType<typeof openPipeline>>

/** Wraps the stages: reports each result and skips pull requests that are not selected. */
function watched(stages: Stages, { only, tell = () => {} }: PipelineOptions): Stages {
  const watch = (name: StageName): Stage => ({
    ...stages[name],
    async run(state, context, signal) {
      const { number } = state.candidate
      if (only && !only.includes(number ?? 0)) return reject('nobody_asked', '')
      const begun = performance.now()
      const say = (what: string) => tell(`#${number} ${name} ${Math.round(performance.now() - begun)} ms ${what}`)
      const result = stages[name].run(state, context, signal)
      result.then(
        (ended) => say(ended.kind === 'done' ? 'done' : `${ended.kind}: ${ended.reason}: ${ended.detail}`),
        (error) => say(`threw ${error}`),
      )
      return result
    },
  })
  return { ...stages, ...Object.fromEntries(STAGES.map((name) => [name, watch(name)])) }
}

function countsOf(repository: SampleRepository) {
  const counts = { easy: 0, medium: 0, hard: 0 }
  for (const { difficulty = 'medium' } of listCandidates(repository)) counts[difficulty] += 1
  return counts
}

/** Scripts an author that cannot find a recipe either. */
const NO_RECIPE = {
  match: 'make it ready for its tests',
  turns: [said('There is no other way.')],
  endless: true,
}

/** Scripts the author and agreeing reviewers for each good pull request. */
function scriptOf(repository: SampleRepository) {
  const tasks = listCandidates(repository).flatMap((pull) => {
    const draft = drafts[repository.name]?.[pull.number]
    return draft ? (scriptFor(pull, draft).tasks ?? []) : []
  })
  return { tasks: [...tasks, NO_RECIPE, NO_WRONG_SOLUTION] }
}
