import type { TaskStep } from '../harbor/task.ts'
import { HarnessUnfit } from '../harnesses/harness-unfit.ts'
import { errorText } from '../platform/error-text.ts'
import type { Exit, Sandbox } from '../sandboxes/sandbox.ts'
import type { AgentLeft } from './agent.ts'
import { keepArtifacts, mainArtifacts, remainsOf, sidecarArtifacts, type Taken, takeArtifacts } from './artifacts.ts'
import type { Bench, TrialRequest } from './bench.ts'
import { sidecarHooks } from './hooks.ts'
import { withLeftovers } from './leftovers.ts'
import type { Living } from './living.ts'
import { withoutNetwork } from './network.ts'
import type { StepRecord } from './record.ts'
import { closeSurroundings, type Images, openSurroundings, type Surroundings } from './surroundings.ts'
import type { Timings } from './timings.ts'
import { keepTrajectory } from './trajectory-file.ts'
import { type Verdict, verifyApart, verifyFresh } from './verify.ts'
import { verifyLive } from './verify-live.ts'
import { work } from './work.ts'

/** Where a step happens, and where it is verified when that is elsewhere. */
export type StepPlace = { around: Surroundings; apart: Images | undefined; timings: Timings }

type StepResult = { record: StepRecord; left: Sandbox | undefined; taken: Taken[] }

/**
 * Runs the agent and its verifier. The next step starts from the sandbox files that the agent left. Once the agent has
 * begun, every failure that is not a proven outage becomes a step without a verdict, and never an error of the trial.
 */
export async function runStep(
  bench: Bench,
  step: TaskStep,
  place: StepPlace,
  before: Sandbox | undefined,
): Promise<StepResult> {
  const progress: { exit: Exit | null } = { exit: null }
  try {
    return await runPhases(bench, step, place, { before, onAgentEnd: (exit) => (progress.exit = exit) })
  } catch (error) {
    if (error instanceof HarnessUnfit || (await bench.attribute(error)) !== 'agent') throw error
    return { record: failedRecord(bench, step, progress.exit, error), left: undefined, taken: [] }
  }
}

function failedRecord(bench: Bench, step: TaskStep, exit: Exit | null, error: unknown): StepRecord {
  const network = withoutNetwork(step.verifier.network)
  const verdict = { verifier: null, reward: null, rewards: {}, error: errorText(error), network }
  const agent = { exit, network: withoutNetwork(step.agent.network) }
  return recordOf(bench, step, agent, { verdict, hooks: [] })
}

type PhaseOptions = { before: Sandbox | undefined; onAgentEnd: (exit: Exit | null) => void }

async function runPhases(
  bench: Bench,
  step: TaskStep,
  place: StepPlace,
  { before, onAgentEnd }: PhaseOptions,
): Promise<StepResult> {
  const { around, timings } = place
  const { request } = bench
  const isApart = step.verifier.place.mode === 'separate'
  request.onPhase('agent', step.name)
  const keepAlive = request.verifyMode === 'shared-live' && !isApart
  const agent = await timings.of('agent', () => work(bench, around, step, { before, keepAlive }))
  onAgentEnd(agent.exit)
  await keepTrajectory(bench, step)
  await requireAnswers(request)
  const hooks = [...agent.hooks, ...(await sidecarHooks(bench, around, step))]
  const taken = agent.living ? [] : await takeFromMain(bench, around, step, agent.sandbox ?? before)
  if (isApart) taken.push(...(await takeFromSidecars(bench, around, step)))

  request.onPhase('verify', step.name)
  const verdict = await timings.of('verify', () => judge(bench, step, place, { agent, before, taken }))
  if (agent.living) taken.push(...(await takeFromMain(bench, around, step, agent.sandbox)))
  const left = agent.sandbox ?? before
  if (before && left !== before) bench.removeLater(before)
  return { record: recordOf(bench, step, agent, { verdict, hooks }), left, taken }
}

/** A model that could not be had says nothing about the agent. */
async function requireAnswers({ model }: TrialRequest): Promise<void> {
  const fault = await model?.fault?.()
  if (fault !== undefined) throw new HarnessUnfit(fault)
}

type Evidence = { agent: AgentLeft; before: Sandbox | undefined; taken: Taken[] }

async function judge(bench: Bench, step: TaskStep, { around, apart }: StepPlace, evidence: Evidence): Promise<Verdict> {
  const { agent, before, taken } = evidence
  const { verifier } = step
  if (agent.living) return judgeLiving(bench, around, step, agent.living)
  if (verifier.place.mode === 'shared' || !apart) {
    return verifyFresh(bench, around, step, (agent.sandbox ?? before)?.stopped)
  }
  const own = await openSurroundings(bench, verifier.place.environment, apart, verifier.timeoutSec + SLACK_SECONDS)
  const left = (agent.sandbox ?? before)?.stopped
  const verdict = await verifyApart(bench, own, step, { taken, left })
  await closeSurroundings(bench, own)
  return verdict
}

/** Where the tests cannot be run in what the agent left, it is killed, and what remains of it is judged. */
async function judgeLiving(bench: Bench, around: Surroundings, step: TaskStep, living: Living): Promise<Verdict> {
  const cold = async (): Promise<Verdict> => {
    await living.sandbox.kill()
    await living.sandbox.exited
    return verifyFresh(bench, around, step, living.sandbox.stopped)
  }
  return withLeftovers(bench, () => verifyLive(bench, living, step), [
    { without: 'Nothing that the agent left running was judged.', run: cold },
  ])
}

/** For the services beside a verifier, which live as long as it does. */
const SLACK_SECONDS = 600

const takeFromMain = (
  bench: Bench,
  around: Surroundings,
  step: TaskStep,
  left: Sandbox | undefined,
): Promise<Taken[]> => takeArtifacts(bench, mainArtifacts(step), () => left?.stopped, around.workdir)

/** They are killed for it. */
export async function takeFromSidecars(bench: Bench, around: Surroundings, step: TaskStep): Promise<Taken[]> {
  const artifacts = sidecarArtifacts(step)
  if (artifacts.length === 0) return []
  await closeSurroundings(bench, around)
  return takeArtifacts(bench, artifacts, remainsOf(around), '/')
}

/** Kept at the end, when all that belongs to a step is known. */
export const withArtifacts = async (
  bench: Bench,
  step: TaskStep,
  record: StepRecord,
  taken: Taken[],
): Promise<StepRecord> => ({ ...record, artifacts: await keepArtifacts(bench, step, taken) })

type Told = { verdict: Verdict; hooks: StepRecord['hooks'] }

const recordOf = (
  bench: Bench,
  step: TaskStep,
  agent: Pick<AgentLeft, 'exit' | 'network'>,
  { verdict, hooks }: Told,
): StepRecord => {
  const { network, carried = [], ...outcome } = verdict
  return {
    name: step.name,
    agent: agent.exit,
    ...outcome,
    carried: [...carried],
    notes: bench.notes,
    network: { agent: agent.network, verifier: network },
    hooks,
    artifacts: [],
  }
}
