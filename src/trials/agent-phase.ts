import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { TaskStep } from '../harbor/task.ts'
import { type HarnessRun, HOME } from '../harnesses/harness.ts'
import type { Exit, Mount, Sandbox, SandboxUpload } from '../sandboxes/sandbox.ts'
import { toAgentBase } from './base-filesystem.ts'
import { runConversation } from './conversation.ts'
import {
  hasMainProcess,
  type MainSandboxOptions,
  type RunningEnvironment,
  runInMain,
  startMain,
} from './environment.ts'
import { findSandboxFailure, isSandboxFailure } from './fallbacks.ts'
import { listHomeUploads, planHarnessRun } from './harness-setup.ts'
import { listMainHooks, runHooksAfterwards, runHooksInside } from './hooks.ts'
import { AGENT_OUTPUT_BYTES, toAgentSeconds } from './limits.ts'
import { type NetworkRecord, type PhaseNetwork, toNoNetworkRecord } from './network.ts'
import { inspectTargetPaths, type PlacedFiles, replaceOriginals, toPlacedFilesUpload } from './place-files.ts'
import type { HookRecord } from './record.ts'
import { recordOutput } from './record-output.ts'
import {
  computeHealthcheckSecondsMax,
  EnvironmentNotReady,
  type RunningSandbox,
  type SandboxCommand,
  withdrawFiles,
} from './running-sandbox.ts'
import type { StepContext } from './step-context.ts'
import { type FileOwnership, packFolders, packPath } from './tar.ts'
import { stageFolders } from './task-files.ts'
import { fillEnv } from './variables.ts'
import { listChangedFiles } from './withhold-files.ts'

export type AgentResult = {
  /** Null if no command of the harness ran. */
  exit: Exit | null
  /** Sandbox with the files that the agent left. Undefined if none was started. */
  sandbox: Sandbox | undefined
  /** Set if the sandbox still runs because the verifier runs in it. */
  running: RunningSandbox | undefined
  hooks: HookRecord[]
  network: NetworkRecord
  /** Files of the configuration that the agent changed. The changes were dropped. */
  droppedChanges: string[]
}

type AgentPhaseOptions = {
  /** The agent's sandbox of the previous step. Its files are the base of this step. */
  previous: Sandbox | undefined
  /** Leaves the sandbox running for the verifier. */
  keepRunning: boolean
}

/**
 * Runs the harness on a step, and records its output. If files that the agent left in an earlier step prevent its sandbox
 * from starting, the step continues without the agent, and the verifier decides.
 */
export const runAgentPhase = (
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  options: AgentPhaseOptions,
): Promise<AgentResult> =>
  recordOutput(context.outputFile('agent'), () => runOrSkipAgent(context, environment, step, options))

async function runOrSkipAgent(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  options: AgentPhaseOptions,
): Promise<AgentResult> {
  const { previous } = options
  try {
    return await runAgent(context, environment, step, options)
  } catch (error) {
    context.request.signal.throwIfAborted()
    const hasAgentFiles = previous !== undefined && !context.request.harness.isControl
    if (!hasAgentFiles || !isSandboxFailure(error)) throw error
    if (error instanceof EnvironmentNotReady) return retryAgent(context, environment, step, { ...options, previous })
    if (!(await isCausedByAgent(context, environment, step, previous))) throw error
    return skipAgent(context, environment, step, { previous, failure: error })
  }
}

/** Runs the agent a second time, which is safe because it has not started. Skips it if that fails in the same way. */
async function retryAgent(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  options: AgentPhaseOptions & { previous: Sandbox },
): Promise<AgentResult> {
  try {
    return await runAgent(context, environment, step, options)
  } catch (error) {
    context.request.signal.throwIfAborted()
    if (!(error instanceof EnvironmentNotReady)) throw error
    return skipAgent(context, environment, step, { previous: options.previous, failure: error })
  }
}

/** Returns true if the sandbox fails with the agent's files and works without them. */
async function isCausedByAgent(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  previous: Sandbox,
): Promise<boolean> {
  const probe = (files: Sandbox | undefined) =>
    findSandboxFailure(context, () => probeAgentSandbox(context, environment, step, files))
  return (await probe(previous)) !== undefined && (await probe(undefined)) === undefined
}

async function skipAgent(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  { previous, failure }: { previous: Sandbox; failure: Error },
): Promise<AgentResult> {
  context.notes.push(`The agent could not start from the files that it left before. ${failure.message}`)
  const { records, sandbox } = await runHooksAfterwards(context, environment, listMainHooks(step), previous)
  const network = toNoNetworkRecord(step.agent.network)
  return { exit: null, sandbox, running: undefined, hooks: records, network, droppedChanges: [] }
}

async function runAgent(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  { previous, keepRunning }: AgentPhaseOptions,
): Promise<AgentResult> {
  const network = context.openPhaseNetwork(step.agent.network, 'agent')
  try {
    const plan = await planAgent(context, environment, step, { previous, network })
    const hasStepPreparation = step.setup !== null || step.healthcheck !== null
    const needsExec = keepRunning || hasStepPreparation || context.request.harness.converse !== undefined
    if (needsExec || hasMainProcess(environment))
      return await runInside(context, environment, step, { plan, keepRunning })
    return await runAlone(context, environment, step, { plan, previous })
  } finally {
    network.close()
  }
}

type AgentPlan = {
  run: HarnessRun | undefined
  sandbox: MainSandboxOptions
  command: SandboxCommand
}

async function planAgent(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  { previous, network }: { previous: Sandbox | undefined; network: PhaseNetwork },
): Promise<AgentPlan> {
  const run = planHarnessRun(context.request, step)
  const harnessEnv = fillEnv(run?.env ?? [], context.request.variables)
  const env = run?.files ? { HOME, ...harnessEnv } : harnessEnv
  const limits = { seconds: toAgentSeconds(step.agent.timeoutSec), outputBytes: AGENT_OUTPUT_BYTES }
  const user = step.agent.user ?? environment.user
  const placed = await placeFilesForStep(context, step, toOwnership(user))
  return {
    run,
    sandbox: {
      base: toAgentBase(previous?.stopped),
      uploads: [
        ...listStepUploads(context, environment, step, user),
        ...(placed ? [toPlacedFilesUpload(placed, toOwnership(user))] : []),
        ...listHomeUploads(run, toOwnership(user)),
      ],
      mounts: [...(await stageRunFolders(context, run)), ...context.mounts],
      env,
      network,
      limits,
    },
    command: { command: run?.command ?? ['true'], user, env, ...limits, input: run?.input ?? '' },
  }
}

/**
 * Returns the files of the configuration for a step. If the step adds files to the working directory, those at the same
 * paths become the originals that are restored after the agent.
 */
async function placeFilesForStep(
  context: StepContext,
  step: TaskStep,
  ownership: FileOwnership,
): Promise<PlacedFiles | undefined> {
  const placed = context.placedFiles()
  if (!placed || step.workdir === null) return placed
  const stepFiles = await replaceOriginals(placed, join(context.request.folder, step.workdir), ownership)
  context.placeFiles(stepFiles)
  return stepFiles
}

function listStepUploads(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  user: string | number,
): SandboxUpload[] {
  const logs = { target: '/', tar: packFolders(['logs', 'logs/agent', 'logs/artifacts']) }
  if (step.workdir === null) return [logs]
  const tar = packPath(join(context.request.folder, step.workdir), toOwnership(user))
  return [logs, { target: environment.workdir, tar }]
}

/**
 * Returns the owner of uploaded files, which the agent must be able to change. Only the image knows the uid of a user
 * name, so files for a named user are writable for all users.
 */
function toOwnership(user: string | number): FileOwnership {
  const [name = ''] = String(user).split(':')
  if (name === 'root') return { uid: 0, writableByAll: false }
  return /^\d+$/.test(name) ? { uid: Number(name), writableByAll: false } : { uid: 0, writableByAll: true }
}

const stageRunFolders = (context: StepContext, run: HarnessRun | undefined): Promise<Mount[]> =>
  Promise.all(
    (run?.folders ?? []).map(async ({ source, target }, index) => ({
      kind: 'folder' as const,
      source: await stageFolders(context.request.folder, [source], join(context.folder, `agent-${index}`)),
      target,
      readOnly: true,
    })),
  )

/** Runs the agent as the first process of its sandbox. */
async function runAlone(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  { plan, previous }: { plan: AgentPlan; previous: Sandbox | undefined },
): Promise<AgentResult> {
  // Files of the step are uploaded even if the harness runs nothing.
  const needsSandbox = plan.run !== undefined || step.workdir !== null
  const ran = needsSandbox
    ? await runInMain(context, environment, 'agent', {
        ...plan,
        start: context.startAgentSandbox,
        onStarted: context.markAgentStarted,
      })
    : undefined
  const droppedChanges = ran ? await listChangedFiles(ran.sandbox.stopped) : []
  const { records, sandbox } = await runHooksAfterwards(
    context,
    environment,
    listMainHooks(step),
    ran?.sandbox ?? previous,
  )
  if (ran && sandbox !== ran.sandbox) context.removeLater(ran.sandbox)
  const exit = plan.run && ran ? ran.exit : null
  const network = plan.sandbox.network.summary()
  return { exit, sandbox, running: undefined, hooks: records, network, droppedChanges }
}

/** Runs the agent with `exec`, in a sandbox whose first process is that of the environment. */
async function runInside(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  { plan, keepRunning }: { plan: AgentPlan; keepRunning: boolean },
): Promise<AgentResult> {
  const seconds = plan.command.seconds + computeOverheadSeconds(environment, step)
  const options = { ...plan.sandbox, env: {}, limits: { ...plan.sandbox.limits, seconds } }
  const running = await startMain(context, environment, 'agent', options)
  const { sandbox } = running
  if (step.setup) await runSetup(environment, running, plan)
  if (step.healthcheck) {
    const command = ['bash', '-c', step.healthcheck.command]
    await running.awaitHealthy('the step', command, step.healthcheck)
  }
  context.markAgentStarted()
  const exit = plan.run ? await execAgent(context, running, step, plan.command) : null
  // The verifier and the hooks must not see the files of the configuration.
  const mustWithdraw = keepRunning || listMainHooks(step).length > 0
  if (mustWithdraw) await withdrawFiles(context, running)
  const hooks = await runHooksInside(context, running, listMainHooks(step))
  const network = plan.sandbox.network.summary()
  if (keepRunning) return { exit, sandbox, running, hooks, network, droppedChanges: [] }
  const ended = await running.end(exit ?? NO_COMMAND_EXIT)
  const droppedChanges = mustWithdraw ? [] : await listChangedFiles(sandbox.stopped)
  return { exit: exit && ended, sandbox, running: undefined, hooks, network, droppedChanges }
}

/** Stands for the exit of the agent where the harness runs no command. */
const NO_COMMAND_EXIT: Exit = { code: 0, limit: null, seconds: 0, outputBytes: 0 }

const execAgent = (
  context: StepContext,
  running: RunningSandbox,
  step: TaskStep,
  command: SandboxCommand,
): Promise<Exit> =>
  context.request.harness.converse ? runConversation(context, running, step, command) : running.exec('agent', command)

async function runSetup(environment: RunningEnvironment, running: RunningSandbox, plan: AgentPlan): Promise<void> {
  const command = ['bash', `${environment.workdir}/setup.sh`]
  const seconds = environment.definition.buildTimeoutSec
  const { code, limit } = await running.exec('setup', { command, seconds, user: plan.command.user })
  if (code !== 0) throw new EnvironmentNotReady(`The setup.sh of the step failed: ${limit ?? `code ${code}`}.`)
}

/** Time for work without a limit of its own, such as starting the sandbox and copying files. */
const SLACK_SECONDS = 120

/** Maximum time that the agent's sandbox needs besides the agent: setup, healthcheck, hooks and a verifier. */
function computeOverheadSeconds({ definition }: RunningEnvironment, step: TaskStep): number {
  const setup = step.setup ? definition.buildTimeoutSec : 0
  const healthcheck = step.healthcheck ? computeHealthcheckSecondsMax(step.healthcheck) : 0
  const hooks = listMainHooks(step).reduce((sum, { timeoutSec }) => sum + timeoutSec, 0)
  return SLACK_SECONDS + setup + healthcheck + hooks + step.verifier.timeoutSec
}

const PROBE_COMMAND: SandboxCommand = { command: ['true'], seconds: 60 }

/** Starts the sandbox of a step without an agent. Throws if it cannot be started. */
async function probeAgentSandbox(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  previous: Sandbox | undefined,
): Promise<void> {
  const network = context.openPhaseNetwork({ mode: 'no-network', hosts: [] }, 'agent')
  const { sandbox: options } = await planAgent(context, environment, step, { previous, network })
  const { sandbox } = await runInMain(context, environment, 'probe', { sandbox: options, command: PROBE_COMMAND })
  context.removeLater(sandbox)
}

/** Returns a stopped sandbox with the files that the agent found in the first step. */
export async function createUntouchedSandbox(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
): Promise<Sandbox> {
  const network = context.openPhaseNetwork(step.agent.network, 'agent')
  try {
    const plan = await planAgent(context, environment, step, { previous: undefined, network })
    const options = { ...plan.sandbox, env: {} }
    if (!step.setup) {
      const ran = await runInMain(context, environment, 'untouched', { sandbox: options, command: PROBE_COMMAND })
      return ran.sandbox
    }
    const running = await startMain(context, environment, 'untouched', options)
    await runSetup(environment, running, plan)
    await running.end(NO_COMMAND_EXIT)
    return running.sandbox
  } finally {
    network.close()
    // Logs of this sandbox are not part of the output.
    for (const name of ['untouched', 'environment-untouched', 'setup'])
      await rm(context.outputFile(name), { force: true })
  }
}

/**
 * Inspects the paths at which the configuration places its files, before the agent starts. Returns the sandbox without an
 * agent in which they were inspected, or undefined if the configuration has no files.
 */
export async function placeConfiguration(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
): Promise<Sandbox | undefined> {
  const { files = [] } = context.request.configuration ?? {}
  if (files.length === 0) return undefined
  const untouched = await createUntouchedSandbox(context, environment, step)
  const target = { workdir: environment.workdir, mounts: environment.files.mounts }
  context.placeFiles(await inspectTargetPaths(untouched.stopped, target, files))
  return untouched
}
