import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Environment, TaskStep } from '../harbor/task.ts'
import { HarnessUnfit } from '../harnesses/harness.ts'
import { nop, oracle } from '../harnesses/reference.ts'
import { errorText } from '../platform/errors.ts'
import { openScratchFolder } from '../sandboxes/kernel/ownership.ts'
import { type Mount, type Sandbox, type SandboxProvider, SandboxUnavailable } from '../sandboxes/sandbox.ts'
import { AgentLost } from './agent-handover.ts'
import { placeConfiguration } from './agent-phase.ts'
import { type CollectedArtifact, unpackArtifacts } from './artifacts.ts'
import { type EnvironmentImages, prepareImages, type RunningEnvironment, startEnvironment } from './environment.ts'
import { installBundle, requireBundleRuns } from './harness-setup.ts'
import { scaleTimeouts, toAgentSeconds, toMainLimits } from './limits.ts'
import { meetsMinimum, type TrialVerdict, toFailedOutcome, toTrialOutcome } from './outcome.ts'
import { writeChangesPatch } from './patch.ts'
import type { StepRecord, TrialLimits, TrialRecord } from './record.ts'
import { collectFromSidecars, runStep } from './run-step.ts'
import { EnvironmentNotReady } from './running-sandbox.ts'
import { stopSidecars, toSidecarRecords } from './sidecars.ts'
import { openTrialResources, type StepContext, type TrialResources } from './step-context.ts'
import { listModes, requireSupported, resolveMode } from './task-support.ts'
import type { TrialRequest } from './trial-request.ts'

/**
 * Runs one harness on one task. A failure before the agent starts, or a proven outage, makes the trial errored; it
 * never scores 0. Any other failure is followed by a control run without the agent: if the control run is scored, the
 * agent scores 0. Throws if it is aborted, and for errors that the caller can fix, before anything runs. Everything that
 * the trial started has been removed when the function returns or throws.
 */
export async function runTrial(provider: SandboxProvider, request: TrialRequest): Promise<TrialRecord> {
  const record = await runOnce(provider, configureTask(request))
  if (request.harness.isControl || !needsControl(record)) return record
  // The former process may have removed the files of the sandbox, so nothing may be concluded from a failure.
  if (request.handover?.agent) throw new AgentLost('The trial of the adopted agent has no regular verdict.')
  const isStarved = record.steps.some(isStarvedVerdict)
  const control = request.isProven && !isStarved ? undefined : await runControl(provider, request)
  if (control?.state !== 'errored') {
    const isStarvedWithoutAgent = control?.steps.some(isStarvedVerdict) === true
    return scoreMissingVerdicts(request, isStarvedWithoutAgent ? record : dropStarvedVerdicts(record))
  }
  const error = `The task also fails without the agent: ${control.error}`
  return { ...record, state: 'errored', class: control.class, reward: null, rewards: {}, error }
}

/**
 * Adds the instructions and MCP servers of the configuration to the task. Throws HarnessUnfit if a server exists
 * already.
 */
function configureTask(request: TrialRequest): TrialRequest {
  const { task, configuration } = request
  if (!configuration) return request
  const { instructionPrefix, instructionSuffix, mcpServers } = configuration
  const duplicate = mcpServers.find(({ name }) => task.environment.mcpServers.some((server) => server.name === name))
  if (duplicate)
    throw new HarnessUnfit(`The task has an MCP server ${duplicate.name}, which the configuration adds, too.`)
  const addTexts = (step: TaskStep): TaskStep => {
    const texts = [instructionPrefix, step.instruction, instructionSuffix]
    return { ...step, instruction: texts.filter((text) => text !== '').join('\n\n') }
  }
  const [first, ...others] = task.steps
  return {
    ...request,
    task: {
      ...task,
      environment: { ...task.environment, mcpServers: [...task.environment.mcpServers, ...mcpServers] },
      steps: [addTexts(first), ...others.map(addTexts)],
    },
  }
}

/** Returns true if there is no verdict, or if it does not cover all files of the agent or may be wrong. */
const needsControl = ({ class: trialClass, steps }: TrialRecord): boolean =>
  trialClass === 'verifier_error' || steps.some((step) => step.notes.length > 0 || isStarvedVerdict(step))

/**
 * Returns true if the tests gave a full reward although one of their processes hit a limit of memory, disk or processes.
 * The reward may be wrong: a killed `diff` prints no difference. A partial reward is kept, because the process that hit
 * the limit may have been the agent's program.
 */
const isStarvedVerdict = ({ verifier, rewards }: StepRecord): boolean =>
  verifier?.starvedOf !== undefined && Object.values(rewards).some((reward) => reward >= 1)

/** Drops the verdicts of tests that ran out of a resource: their rewards may be wrong. */
function dropStarvedVerdicts(record: TrialRecord): TrialRecord {
  if (!record.steps.some(isStarvedVerdict)) return record
  const steps = record.steps.map((step) => (isStarvedVerdict(step) ? dropVerdict(step) : step))
  return { ...record, steps, class: 'verifier_error' }
}

const dropVerdict = (step: StepRecord): StepRecord => ({
  ...step,
  reward: null,
  rewards: {},
  error: `A process of the verifier ran into its limit: ${step.verifier?.starvedOf}.`,
})

type ControlResult = Pick<TrialRecord, 'state' | 'class' | 'error' | 'steps'>

/** Runs the same trial without an agent. If it is scored, the agent caused the failure. */
async function runControl(provider: SandboxProvider, request: TrialRequest): Promise<ControlResult> {
  const harness = request.task.steps.some(({ solution }) => solution) ? oracle : nop
  const outputFolder = join(request.outputFolder, 'control')
  try {
    return await runOnce(provider, {
      ...request,
      model: undefined,
      configuration: undefined,
      harness,
      outputFolder,
      onPhase: () => {},
    })
  } catch (error) {
    request.signal.throwIfAborted()
    return { state: 'errored', class: 'operator_error', error: errorText(error), steps: [] }
  }
}

/** Scores 0 for steps without a verdict: an agent cannot exclude its own trial. */
function scoreMissingVerdicts({ task }: TrialRequest, record: TrialRecord): TrialRecord {
  if (record.class !== 'verifier_error') return record
  const steps = record.steps.map((step) =>
    step.error === null ? step : { ...step, notes: [...step.notes, `There is no verdict. ${step.error}`] },
  )
  return { ...record, steps, ...toFailedOutcome(steps, task.rewardStrategy, task.steps.length) }
}

/** State of one run of a trial, filled as it proceeds. */
type TrialRun = {
  request: TrialRequest
  resources: TrialResources
  /** Filled when the programs of the harness are installed. */
  mounts: Mount[]
  steps: StepRecord[]
  areStepsDone: boolean
  environment: RunningEnvironment | undefined
  images: Map<Environment, EnvironmentImages>
}

/** Runs a trial without a control: prepares the environment, runs all steps and returns the record. */
async function runOnce(provider: SandboxProvider, requested: TrialRequest): Promise<TrialRecord> {
  const capabilities = await provider.selfTest()
  requireSupported(requested.task, capabilities)
  const { timeoutMultiplier = 1 } = requested
  const request = {
    ...requested,
    task: scaleTimeouts(requested.task, timeoutMultiplier),
    verifyMode: resolveMode(requested.task, requested.verifyMode),
  }
  await using scratch = await openScratchFolder(request.outputFolder)
  await removeEarlierOutput(request.outputFolder)
  const mounts: Mount[] = []
  await using resources = openTrialResources(provider, request, { folder: scratch.path, mounts })
  const run: TrialRun = {
    request,
    resources,
    mounts,
    steps: [],
    areStepsDone: false,
    environment: undefined,
    images: new Map(),
  }
  const verdict = await runToVerdict(run)
  return {
    task: { name: request.task.name, digest: request.digest },
    harness: request.harness.id,
    isolation: capabilities.isolation,
    verifyMode: request.verifyMode,
    timeoutMultiplier: timeoutMultiplier === 1 ? undefined : timeoutMultiplier,
    base: [...run.images.values()].some(({ main }) => main.base === 'host-base') ? 'host-base' : 'image',
    resources: toTrialLimits(run.environment),
    steps: run.steps,
    sidecars: toSidecarRecords(run.environment?.sidecars ?? []),
    timings: resources.timings(),
    ...verdict,
  }
}

/** Files that a trial writes into its output folder. */
const OUTPUT_NAME = /^(artifacts|control|changes\.patch|trajectory[^/]*\.json|[^/]+\.log)$/

/** Removes the output of an earlier trial or attempt, so that it is not taken for output of this one. */
async function removeEarlierOutput(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const name of await readdir(folder))
    if (OUTPUT_NAME.test(name)) await rm(join(folder, name), { recursive: true, force: true })
}

function toTrialLimits(environment: RunningEnvironment | undefined): TrialLimits | null {
  if (!environment) return null
  const { cpus, memoryMb, diskMb } = toMainLimits(environment.definition.resources, environment.main)
  return { cpus, memoryMb, diskMb }
}

/** Verdict of a trial that is not scored, without class and error. */
const UNSCORED = { state: 'errored', reward: null, rewards: {}, limit: null } as const

async function runToVerdict(run: TrialRun): Promise<TrialVerdict> {
  const { request } = run
  if (request.verifyMode === 'grader' && !listModes(request.task).includes('grader')) {
    const error = 'The task does not support mode grader: it does not set metadata.assay.grader.'
    return { ...UNSCORED, class: 'operator_error', error }
  }
  const context = await run.resources.createContext(null)
  try {
    const environment = await context.timed('prepare', () => prepareEnvironment(run, context))
    run.environment = environment
    await runSteps(run, context, environment)
    await stopSidecars(context, environment.sidecars)
    return toOutcome(run)
  } catch (error) {
    request.signal.throwIfAborted()
    return await toErrorVerdict(run, context, error)
  }
}

const toOutcome = ({ steps, request: { task } }: TrialRun): TrialVerdict =>
  toTrialOutcome(steps, task.rewardStrategy, task.steps.length)

/** Returns the verdict of a trial that an error ended. Throws errors that the caller handles. */
async function toErrorVerdict(run: TrialRun, context: StepContext, error: unknown): Promise<TrialVerdict> {
  if (error instanceof HarnessUnfit) return { ...UNSCORED, class: 'operator_error', error: error.message }
  if (error instanceof AgentLost) throw error
  const cause = await context.attributeFailure()
  if (cause === 'agent') {
    recordFailure(run, errorText(error))
    return toOutcome(run)
  }
  const isOutage = cause === 'outage' || error instanceof SandboxUnavailable || error instanceof EnvironmentNotReady
  if (!isOutage) throw error
  return { ...UNSCORED, class: 'sandbox_error', error: errorText(error) }
}

/** Records a failure. After the last verdict it is only a note. Before that, the last step has no verdict. */
function recordFailure({ steps, areStepsDone }: TrialRun, text: string): void {
  const last = steps.at(-1)
  if (!last) return
  if (areStepsDone) last.notes.push(`The trial did not end normally. ${text}`)
  else steps[steps.length - 1] = { ...last, error: last.error ?? text }
}

/** Installs the harness, builds all images, starts the sidecars and tries the harness in the image. */
async function prepareEnvironment(run: TrialRun, context: StepContext): Promise<RunningEnvironment> {
  const { request, mounts, images } = run
  const { environment: definition } = request.task
  request.onPhase('prepare', null)
  mounts.push(...(await installBundle(request)))
  for (const each of listEnvironments(request)) images.set(each, await prepareImages(context, each))
  const environment = await startEnvironment(
    context,
    definition,
    readImages(run, definition),
    computeSidecarSecondsMax(request),
  )
  await requireBundleRuns(context, environment)
  return environment
}

/** Lists all environments, also of separate verifiers, so that every build fails before anything is spent on an agent. */
const listEnvironments = ({ task }: TrialRequest): Environment[] => [
  task.environment,
  ...task.steps.flatMap(({ verifier: { sandbox } }) => (sandbox.mode === 'separate' ? [sandbox.environment] : [])),
]

function readImages({ images }: TrialRun, environment: Environment): EnvironmentImages {
  const found = images.get(environment)
  if (!found) throw new Error('The images of an environment were not prepared.')
  return found
}

/** Lifetime of the sidecars beyond the time limits of all steps, for starting sandboxes, healthchecks and setup. */
const SIDECAR_SLACK_SECONDS = 3600

/** Maximum lifetime of the sidecars. */
const computeSidecarSecondsMax = ({ task }: TrialRequest): number =>
  task.steps.reduce((sum, { agent, verifier }) => {
    const hooks = verifier.collect.reduce((total, { timeoutSec }) => total + timeoutSec, 0)
    return sum + toAgentSeconds(agent.timeoutSec) + verifier.timeoutSec + hooks
  }, SIDECAR_SLACK_SECONDS)

type CompletedStep = {
  context: StepContext
  step: TaskStep
  record: StepRecord
  collected: CollectedArtifact[]
}

/** Runs the steps. Each step starts with the files that the agent left in the step before, without those of the verifier. */
async function runSteps(run: TrialRun, context: StepContext, environment: RunningEnvironment): Promise<void> {
  const { request, resources, steps } = run
  const { task, harness } = request
  let last: CompletedStep | undefined
  let previous: Sandbox | undefined
  const [first] = task.steps
  const untouched = await context.timed('prepare', () => placeConfiguration(context, environment, first))
  for (const [index, step] of task.steps.entries()) {
    const stepContext = await resources.createContext(index)
    const { sandbox: verifierSandbox } = step.verifier
    const verifierImages =
      verifierSandbox.mode === 'separate' ? readImages(run, verifierSandbox.environment) : undefined
    const { record, sandbox, collected } = await runStep(stepContext, step, { environment, verifierImages, previous })
    previous = sandbox
    last = { context: stepContext, step, record, collected }
    steps.push(record)
    await storeArtifacts(run, last)
    if (!meetsMinimum(record, step.minReward)) break
  }
  run.areStepsDone = true
  if (request.savesPatch && !harness.isControl && previous)
    await writeChangesPatch(context, environment, first, { agentSandbox: previous, untouched })
  if (last && last.step.verifier.sandbox.mode === 'shared') await addSidecarArtifacts(run, environment, last)
  if (previous) context.removeLater(previous)
}

/** Unpacks the artifacts of the last step and replaces its record. */
async function storeArtifacts({ steps }: TrialRun, { context, step, record, collected }: CompletedStep): Promise<void> {
  steps[steps.length - 1] = { ...record, artifacts: await unpackArtifacts(context, step, collected) }
}

/** Adds the artifacts of the sidecars. Done last, because the sidecars are stopped for it. */
async function addSidecarArtifacts(run: TrialRun, environment: RunningEnvironment, last: CompletedStep): Promise<void> {
  const added = await collectFromSidecars(last.context, environment, last.step)
  if (added.length > 0) await storeArtifacts(run, { ...last, collected: [...last.collected, ...added] })
}
