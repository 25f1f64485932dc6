import type { TaskStep } from '../harbor/task.ts'
import type { Sandbox } from '../sandboxes/sandbox.ts'
import { type AgentLeft, runAgent, tryStage } from './agent.ts'
import type { Bench } from './bench.ts'
import { NeverReady } from './health.ts'
import { hooksAfterwards, mainHooks } from './hooks.ts'
import { isTrouble, troubleOf } from './leftovers.ts'
import { withoutNetwork } from './network.ts'
import type { Surroundings } from './surroundings.ts'

type Beginning = { before: Sandbox | undefined; keepAlive: boolean }

/**
 * Lets the harness work on a step. Where what it left in an earlier one stands in the way, the step goes on without it, and
 * the verifier decides.
 */
export async function work(
  bench: Bench,
  around: Surroundings,
  step: TaskStep,
  beginning: Beginning,
): Promise<AgentLeft> {
  const { before } = beginning
  try {
    return await runAgent(bench, around, step, beginning)
  } catch (error) {
    bench.request.signal.throwIfAborted()
    if (before === undefined || bench.request.harness.isControl || !isTrouble(error)) throw error
    if (error instanceof NeverReady) return retried(bench, around, step, { ...beginning, before })
    if (!(await isOfTheAgent(bench, around, step, before))) throw error
    return withoutAgent(bench, around, step, { before, trouble: error })
  }
}

/** The agent has not begun, so that nothing is done twice. */
async function retried(
  bench: Bench,
  around: Surroundings,
  step: TaskStep,
  beginning: Beginning & { before: Sandbox },
): Promise<AgentLeft> {
  try {
    return await runAgent(bench, around, step, beginning)
  } catch (error) {
    bench.request.signal.throwIfAborted()
    if (!(error instanceof NeverReady)) throw error
    return withoutAgent(bench, around, step, { before: beginning.before, trouble: error })
  }
}

/** Whether the sandbox cannot be had with what the agent left, and can be had without. */
async function isOfTheAgent(bench: Bench, around: Surroundings, step: TaskStep, before: Sandbox): Promise<boolean> {
  const isInTheWay = await troubleOf(bench, () => tryStage(bench, around, step, before))
  return isInTheWay !== undefined && !(await troubleOf(bench, () => tryStage(bench, around, step, undefined)))
}

async function withoutAgent(
  bench: Bench,
  around: Surroundings,
  step: TaskStep,
  { before, trouble }: { before: Sandbox; trouble: Error },
): Promise<AgentLeft> {
  bench.notes.push(`The agent could not begin with what it left before. ${trouble.message}`)
  const { records, left } = await hooksAfterwards(bench, around, mainHooks(step), before)
  const network = withoutNetwork(step.agent.network)
  return { exit: null, sandbox: left, living: undefined, hooks: records, network }
}
