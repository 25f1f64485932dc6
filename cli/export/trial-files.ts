import type { ComparisonTrial } from '../../src/comparisons/shapes/schema.ts'
import { download } from '../../src/platform/http/client.ts'
import type { TrialTexts } from '../../web/export/trial-page.ts'
import type { ScopedComparison } from '../comparison-trials.ts'
import type { Service } from '../service.ts'
import { note, type Shell } from '../shell.ts'

const CONCURRENCY = 6
/** Maximum size of a file that is exported. Larger files are replaced by the command that saves them. */
const FILE_BYTES_MAX = 16 * 1024 * 1024
const PROGRESS_INTERVAL_MS = 10_000

/** Reads the patch, the verifier's output and the first trajectory of a trial. */
export async function readTrialTexts(
  service: Service,
  { scope, id }: ScopedComparison,
  trial: ComparisonTrial,
): Promise<TrialTexts> {
  const params = { org: service.org, ...scope.params, comparisonId: id, trialId: trial.reusedFrom ?? trial.id }
  const readFirst = async (pattern: RegExp): Promise<string | undefined> => {
    const artifact = trial.artifacts.find(({ name }) => pattern.test(name))
    if (!artifact) return undefined
    if (artifact.bytes > FILE_BYTES_MAX)
      return `The file has ${artifact.bytes} bytes. To save it: assay trials artifacts ${trial.id} ${artifact.name} --output <path>`
    const { bytes } = await download(service, scope.endpoints.artifact, {
      params: { ...params, artifact: artifact.name },
    })
    return new TextDecoder().decode(bytes)
  }
  return {
    patch: await readFirst(/^changes\.patch$/),
    verifier: await readFirst(/^verifier[^/]*\.log$/),
    trajectory: await readFirst(/^trajectory[^/]*\.json$/),
  }
}

/** Runs `work` for each trial, several at a time, and prints progress from time to time. */
export async function forEachTrial(
  shell: Shell,
  trials: readonly ComparisonTrial[],
  work: (trial: ComparisonTrial) => Promise<void>,
): Promise<void> {
  let done = 0
  let reportedAt = Date.now()
  await forEachConcurrently(trials, async (trial) => {
    await work(trial)
    done += 1
    if (Date.now() - reportedAt < PROGRESS_INTERVAL_MS) return
    reportedAt = Date.now()
    note(shell, `${done} of ${trials.length} trials`)
  })
}

/** Runs `work` for each item, several at a time. */
export async function forEachConcurrently<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values()
  await Promise.all(
    Array.from({ length: CONCURRENCY }, async () => {
      for (const item of queue) await work(item)
    }),
  )
}
