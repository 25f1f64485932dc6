import type { Db } from '../../platform/db/db.ts'
import { type Job, LeaseLost, WorkerStopped } from '../../platform/jobs/jobs.ts'
import type { AgentHandover } from '../../trials/agent-handover.ts'
import { listAdoptableSandboxes, type RunningAgent, recordRunningAgent } from './queue/sql.ts'
import type { TrialKey } from './sql.ts'

/** A query that other folders, which may not import sql.ts, use as it is. */
export { listAdoptableSandboxes }

type HandoverOptions = {
  grantId: string
  /** The agent that an earlier worker left. */
  agent: RunningAgent | undefined
  /** True if a stopping worker leaves its agents to others, because their gateway continues to run. */
  leavesAgents: boolean
}

/** Returns how the agent of a trial passes to the next worker. */
export const toHandover = (
  job: Pick<Job<TrialKey>, 'write'>,
  trial: TrialKey,
  { grantId, agent, leavesAgents }: HandoverOptions,
): AgentHandover => ({
  agent,
  async onAdoptable(sandboxId) {
    const record = (tx: Db) => recordRunningAgent(tx, trial, { sandboxId, grantId })
    await job.write(record).catch(() => {}) // without a row, the next worker starts the agent again
  },
  isTakenOver: (reason) => reason instanceof LeaseLost || (leavesAgents && reason instanceof WorkerStopped),
})
