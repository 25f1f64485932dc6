import type { Environment, TaskStep } from '../harbor/task.ts'
import { HarnessUnfit } from '../harnesses/harness-unfit.ts'
import { errorText } from '../platform/error-text.ts'
import { type Mount, type Sandbox, type SandboxProvider, SandboxUnavailable } from '../sandboxes/sandbox.ts'
import type { Taken } from './artifacts.ts'
import type { Bench, TrialRequest } from './bench.ts'
import { installFor, requireFit } from './harness-place.ts'
import { NeverReady } from './health.ts'
import { agentSeconds, mainLimits } from './limits.ts'
import { modeFor, modesOf } from './modes.ts'
import { goesOn, trialOutcome } from './outcome.ts'
import { removeEarlierOutput } from './output-files.ts'
import { keepPatch } from './patch.ts'
import type { StepRecord, TrialRecord, TrialResources } from './record.ts'
import { openScratch } from './scratch.ts'
import { sidecarRecords } from './sidecars.ts'
import { runStep, takeFromSidecars, withArtifacts } from './step.ts'
import { requireSupported } from './support.ts'
import { closeSurroundings, type Images, openSurroundings, prepareImages, type Surroundings } from './surroundings.ts'
import { startTimings, type Timings } from './timings.ts'
import { openWorkshop, type Workshop } from './workshop.ts'

/** Prepare, agent, kill, collect from outside, verify in a fresh sandbox, read the reward. */
export async function runThrough(provider: SandboxProvider, asked: TrialRequest): Promise<TrialRecord> {
  const capabilities = await provider.selfTest()
  requireSupported(asked.task, capabilities)
  const request = { ...asked, verifyMode: modeFor(asked.task, asked.verifyMode) }
  await using scratch = await openScratch(request.outputFolder)
  await removeEarlierOutput(request.outputFolder)
  const mounts: Mount[] = []
  await using workshop = openWorkshop(provider, request, { folder: scratch.path, mounts })
  const trial: Trial = {
    ...{ request, workshop, mounts, timings: startTimings() },
    ...{ steps: [], areStepsDone: false, around: undefined, images: new Map() },
  }
  const verdict = await verdictOf(trial)
  return {
    task: { name: request.task.name, digest: request.digest },
    harness: request.harness.id,
    isolation: capabilities.isolation,
    verifyMode: request.verifyMode,
    base: [...trial.images.values()].some(({ main }) => main.base === 'host-base') ? 'host-base' : 'image',
    resources: resourcesOf(trial.around),
    steps: trial.steps,
    sidecars: sidecarRecords(trial.around?.sidecars ?? []),
    timings: trial.timings.soFar(),
    ...verdict,
  }
}

function resourcesOf(around: Surroundings | undefined): TrialResources | null {
  if (!around) return null
  const { cpus, memoryMb, diskMb } = mainLimits(around.environment.resources, around.main)
  return { cpus, memoryMb, diskMb }
}

type Trial = {
  request: TrialRequest
  workshop: Workshop
  /** Filled when the programs of the harness are installed. */
  mounts: Mount[]
  timings: Timings
  steps: StepRecord[]
  /** No further step will be run. */
  areStepsDone: boolean
  around: Surroundings | undefined
  images: Map<Environment, Images>
}

async function verdictOf(trial: Trial): Promise<ReturnType<typeof trialOutcome>> {
  const { request, steps } = trial
  const unscored = { state: 'errored', reward: null, rewards: {}, limit: null } as const
  if (request.verifyMode === 'grader' && !modesOf(request.task).includes('grader')) {
    return { ...unscored, class: 'operator_error', error: 'The task does not promise what the mode grader needs.' }
  }
  const bench = await trial.workshop.bench(null)
  try {
    await runAll(trial, bench)
    return trialOutcome(steps, request.task.rewardStrategy)
  } catch (error) {
    request.signal.throwIfAborted() // what broke, broke because of that
    if (error instanceof HarnessUnfit) return { ...unscored, class: 'operator_error', error: error.message }
    const source = await bench.attribute(error)
    if (source === 'agent') {
      noteFailure(trial, errorText(error))
      return trialOutcome(steps, request.task.rewardStrategy)
    }
    const isOutage = source === 'outage' || error instanceof SandboxUnavailable || error instanceof NeverReady
    if (!isOutage) throw error
    return { ...unscored, class: 'sandbox_error', error: errorText(error) }
  }
}

/** A failure after the last verdict leaves that verdict in place, with a note. Before it, there is no verdict. */
function noteFailure({ steps, areStepsDone }: Trial, text: string): void {
  const last = steps.at(-1)
  if (!last) return
  if (areStepsDone) last.notes.push(`The trial did not end in order. ${text}`)
  else steps[steps.length - 1] = { ...last, error: last.error ?? text }
}

async function runAll(trial: Trial, bench: Bench): Promise<void> {
  const { environment } = trial.request.task
  const around = await trial.timings.of('prepare', async () => {
    trial.request.onPhase('prepare', null)
    trial.mounts.push(...(await installFor(trial.request)))
    for (const each of environmentsOf(trial.request)) trial.images.set(each, await prepareImages(bench, each))
    const opened = await openSurroundings(
      bench,
      environment,
      imagesFor(trial, environment),
      trialSeconds(trial.request),
    )
    await requireFit(bench, opened)
    return opened
  })
  trial.around = around
  await runSteps(trial, bench, around)
  await closeSurroundings(bench, around)
}

/** All are prepared before anything is spent on an agent. */
const environmentsOf = ({ task }: TrialRequest): Environment[] => [
  task.environment,
  ...task.steps.flatMap(({ verifier: { place } }) => (place.mode === 'separate' ? [place.environment] : [])),
]

function imagesFor({ images }: Trial, environment: Environment): Images {
  const found = images.get(environment)
  if (!found) throw new Error('An environment was not prepared.')
  return found
}

const SLACK_SECONDS = 3600

/** How long the services beside the agent's may live at most. */
const trialSeconds = ({ task }: TrialRequest): number =>
  task.steps.reduce((sum, { agent, verifier }) => {
    const hooks = verifier.collect.reduce((total, { timeoutSec }) => total + timeoutSec, 0)
    return sum + agentSeconds(agent.timeoutSec) + verifier.timeoutSec + hooks
  }, SLACK_SECONDS)

type Done = { bench: Bench; step: TaskStep; record: StepRecord; taken: Taken[] }

/** Each step begins with what the agent left in the one before; the verifier of a step is seen by no later one. */
async function runSteps(trial: Trial, bench: Bench, around: Surroundings): Promise<void> {
  const { request, timings, workshop, steps } = trial
  let before: Sandbox | undefined
  let last: Done | undefined
  for (const [index, step] of request.task.steps.entries()) {
    const own = await workshop.bench(index)
    const { place } = step.verifier
    const apart = place.mode === 'separate' ? imagesFor(trial, place.environment) : undefined
    const { record, left, taken } = await runStep(own, step, { around, apart, timings }, before)
    before = left
    steps.push(record)
    steps[steps.length - 1] = await withArtifacts(own, step, record, taken)
    last = { bench: own, step, record, taken }
    if (!goesOn(record, step.minReward)) break
  }
  trial.areStepsDone = true
  const [first] = request.task.steps
  if (request.keepsPatch && !request.harness.isControl && first && before) await keepPatch(bench, around, first, before)
  if (last && last.step.verifier.place.mode === 'shared') await keepLast(steps, around, last)
  if (before) bench.removeLater(before)
}

/** What the services beside the agent's have for us can be taken once nobody needs them any more. */
async function keepLast(
  steps: StepRecord[],
  around: Surroundings,
  { bench, step, record, taken }: Done,
): Promise<void> {
  const more = await takeFromSidecars(bench, around, step)
  if (more.length > 0) steps[steps.length - 1] = await withArtifacts(bench, step, record, [...taken, ...more])
}
