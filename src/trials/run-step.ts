import type { TaskStep } from '../harbor/task.ts'
import { HarnessUnfit } from '../harnesses/harness.ts'
import { errorText } from '../platform/errors.ts'
import { type Exit, type Sandbox, SandboxUnavailable } from '../sandboxes/sandbox.ts'
import { AgentLost } from './agent-handover.ts'
import { type AgentResult, runAgentPhase } from './agent-phase.ts'
import { type CollectedArtifact, collectArtifacts, listMainArtifacts, listSidecarArtifacts } from './artifacts.ts'
import { type EnvironmentImages, type RunningEnvironment, startEnvironment } from './environment.ts'
import { withFallbacks } from './fallbacks.ts'
import { runSidecarHooks } from './hooks.ts'
import { toNoNetworkRecord } from './network.ts'
import type { HookRecord, StepRecord } from './record.ts'
import { type RunningSandbox, withdrawFiles } from './running-sandbox.ts'
import { stopSidecars } from './sidecars.ts'
import type { StepContext } from './step-context.ts'
import { textThreads } from './threads.ts'
import { type StepVerdict, verifyFresh, verifyLive, verifySeparately } from './verify-phase.ts'

type StepOptions = {
  environment: RunningEnvironment
  /** Images of a separate verifier. */
  verifierImages: EnvironmentImages | undefined
  /** The agent's sandbox of the previous step. */
  previous: Sandbox | undefined
}

/** `sandbox` has the files from which the next step starts. */
type StepResult = { record: StepRecord; sandbox: Sandbox | undefined; collected: CollectedArtifact[] }

/**
 * Runs one step: agent, hooks, artifacts, verifier. Once the agent has started, every failure that is not a proven outage
 * becomes a step without a verdict, and never an error of the trial.
 */
export async function runStep(context: StepContext, step: TaskStep, options: StepOptions): Promise<StepResult> {
  const agent: { exit: Exit | null } = { exit: null }
  try {
    return await runPhases(context, step, options, (exit) => {
      agent.exit = exit
    })
  } catch (error) {
    if (error instanceof HarnessUnfit || error instanceof AgentLost) throw error
    if ((await context.attributeFailure()) !== 'agent') throw error
    return { record: toFailedRecord(context, step, agent.exit, error), sandbox: undefined, collected: [] }
  }
}

async function runPhases(
  context: StepContext,
  step: TaskStep,
  options: StepOptions,
  onAgentEnd: (exit: Exit | null) => void,
): Promise<StepResult> {
  const { environment, previous } = options
  const { request } = context
  const isSeparate = step.verifier.sandbox.mode === 'separate'
  request.onPhase('agent', step.name)
  const keepRunning = request.verifyMode === 'shared-live' && !isSeparate
  const agent = await context.timed('agent', () => runAgentPhase(context, environment, step, { previous, keepRunning }))
  onAgentEnd(agent.exit)
  await writeTrajectory(context, step)
  // A cheat has declared that it does not apply to this task.
  if (agent.exit && agent.exit.code === request.notApplicableCode) return toNotApplicable(context, step, agent)

  const hooks = [...agent.hooks, ...(await runSidecarHooks(context, environment, step))]
  const sandbox = agent.sandbox ?? previous
  const collected = agent.running ? [] : await collectFromMain(context, environment, step, sandbox)
  if (isSeparate) collected.push(...(await collectFromSidecars(context, environment, step)))

  request.onPhase('verify', step.name)
  const verdict = await context.timed('verify', () => verifyStep(context, step, options, { agent, sandbox, collected }))
  if (agent.running) collected.push(...(await collectFromMain(context, environment, step, agent.sandbox)))
  if (previous && sandbox !== previous) context.removeLater(previous)
  return { record: toRecord(context, step, agent, { verdict, hooks }), sandbox, collected }
}

function toNotApplicable(context: StepContext, step: TaskStep, agent: AgentResult): StepResult {
  const network = toNoNetworkRecord(step.verifier.network)
  const verdict = { verifier: null, reward: 0, rewards: { reward: 0 }, error: null, network }
  return {
    record: toRecord(context, step, agent, { verdict, hooks: agent.hooks }),
    sandbox: agent.sandbox,
    collected: [],
  }
}

/**
 * Writes the trajectory beside the agent's output, from which it is converted. No result depends on it, so a failure only
 * leaves out the file.
 */
async function writeTrajectory(context: StepContext, { instruction }: TaskStep): Promise<void> {
  const { harness, model, signal } = context.request
  if (!harness.trajectoryEvents) return
  const { id, version, outputRules } = harness
  const source = context.outputFile('agent')
  const target = source.replace(/agent([^/]*)\.log$/, 'trajectory$1.json')
  const input = { id, version, rules: outputRules, instruction, model: model?.access.model, source, target }
  await textThreads.run('convertTrajectory', input).catch(() => {})
  signal.throwIfAborted()
}

type VerifyInput = { agent: AgentResult; sandbox: Sandbox | undefined; collected: CollectedArtifact[] }

async function verifyStep(
  context: StepContext,
  step: TaskStep,
  { environment, verifierImages }: StepOptions,
  { agent, sandbox, collected }: VerifyInput,
): Promise<StepVerdict> {
  const { verifier } = step
  if (agent.running) return verifyRunning(context, environment, step, agent.running)
  if (verifier.sandbox.mode === 'shared' || !verifierImages)
    return verifyFresh(context, environment, step, sandbox?.stopped)
  const sidecarSecondsMax = verifier.timeoutSec + SIDECAR_SLACK_SECONDS
  const { environment: definition } = verifier.sandbox
  const separate = await startEnvironment(context, definition, verifierImages, sidecarSecondsMax)
  const verdict = await verifySeparately(context, separate, step, { collected, from: sandbox?.stopped })
  await stopSidecars(context, separate.sidecars)
  return verdict
}

/** Lifetime of a separate verifier's sidecars beyond the time limit of its tests, for starting sandboxes and healthchecks. */
const SIDECAR_SLACK_SECONDS = 600

/** Verifies in the running sandbox. If the tests cannot run there, kills it and verifies its files. */
async function verifyRunning(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  running: RunningSandbox,
): Promise<StepVerdict> {
  const verifyStopped = async (): Promise<StepVerdict> => {
    await running.sandbox.kill()
    await running.sandbox.exited
    return verifyFresh(context, environment, step, running.sandbox.stopped)
  }
  const withdrawAndVerify = async (): Promise<StepVerdict> => {
    if (!(await withdrawFiles(context, running))) throw new SandboxUnavailable(NOT_WITHDRAWN)
    return verifyLive(context, running, step)
  }
  return withFallbacks(context, withdrawAndVerify, [
    { note: 'The tests ran without the processes that the agent had left running.', run: verifyStopped },
  ])
}

const NOT_WITHDRAWN = "The files of the configuration could not be removed from the agent's environment."

const collectFromMain = (
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  sandbox: Sandbox | undefined,
): Promise<CollectedArtifact[]> =>
  collectArtifacts(context, listMainArtifacts(step), () => sandbox?.stopped, environment.workdir)

/** Stops the sidecars and collects their artifacts. */
export async function collectFromSidecars(
  context: StepContext,
  { sidecars }: RunningEnvironment,
  step: TaskStep,
): Promise<CollectedArtifact[]> {
  const artifacts = listSidecarArtifacts(step)
  if (artifacts.length === 0) return []
  await stopSidecars(context, sidecars)
  const findStopped = (name: string) => sidecars.find(({ service }) => service.name === name)?.running.sandbox.stopped
  return collectArtifacts(context, artifacts, findStopped, '/')
}

function toFailedRecord(context: StepContext, step: TaskStep, exit: Exit | null, error: unknown): StepRecord {
  const network = toNoNetworkRecord(step.verifier.network)
  const verdict = { verifier: null, reward: null, rewards: {}, error: errorText(error), network }
  const agent = { exit, network: toNoNetworkRecord(step.agent.network), droppedChanges: [] }
  return toRecord(context, step, agent, { verdict, hooks: [] })
}

function toRecord(
  context: StepContext,
  step: TaskStep,
  agent: Pick<AgentResult, 'exit' | 'network' | 'droppedChanges'>,
  { verdict, hooks }: { verdict: StepVerdict; hooks: HookRecord[] },
): StepRecord {
  const { network, carried = [], ...outcome } = verdict
  return {
    name: step.name,
    agent: agent.exit,
    ...outcome,
    carried: [...carried],
    notes: context.notes,
    droppedChanges: agent.droppedChanges.length > 0 ? agent.droppedChanges : undefined,
    network: { agent: agent.network, verifier: network },
    hooks,
    artifacts: [],
  }
}
