import { setTimeout as wait } from 'node:timers/promises'
import type { Db } from '../../../platform/db/db.ts'
import { VERIFY_MODES } from '../../../trials/record.ts'
import type { Calibrated, Engine, TaskOrder, Watch } from '../engine.ts'
import { findCalibration, ifUnlocked, insertCalibration } from './sql.ts'

const WAIT_MS = 250

type Tools = { db: Db; engine: Engine }

/** How a task is verified in a sandbox: found once, by the first who asks, while the others wait. */
export async function calibrated(tools: Tools, order: TaskOrder, watch: Watch): Promise<Calibrated> {
  for (;;) {
    const known = await findKnown(tools.db, order)
    if (known) return known
    const name = `calibration ${order.task.digest} ${order.sandbox}`
    const mine = await ifUnlocked(tools.db, name, () => findOut(tools, order, watch))
    if (mine) return mine.done
    await wait(WAIT_MS, undefined, { signal: watch.signal })
  }
}

async function findKnown(db: Db, { task, sandbox }: TaskOrder): Promise<Calibrated | undefined> {
  const row = await findCalibration(db, task.digest, sandbox)
  return row && (verifyingOf(row) ?? { kind: 'unfit', reason: row.reason ?? 'The task is not fit for trials.' })
}

type Stored = Record<'verifyMode' | 'agentNetwork' | 'verifierNetwork', string | null> & { carried: string[] | null }

/** Undefined: it is not known yet, or there is no mode. */
export function verifyingOf({ verifyMode, agentNetwork, verifierNetwork, carried }: Stored): Calibrated | undefined {
  const mode = VERIFY_MODES.find((candidate) => candidate === verifyMode)
  if (!mode) return undefined
  return {
    kind: 'fit',
    mode,
    agentNetwork: needOf(agentNetwork),
    verifierNetwork: needOf(verifierNetwork),
    carried: carried ?? [],
  }
}

const needOf = (text: string | null) => (text === 'required' ? 'required' : 'declared')

async function findOut({ db, engine }: Tools, order: TaskOrder, watch: Watch): Promise<Calibrated> {
  const meanwhile = await findKnown(db, order)
  if (meanwhile) return meanwhile
  const found = await engine.calibrate(order, watch)
  if (found.kind === 'broken') return found
  const fit = found.kind === 'fit' ? found : undefined
  await insertCalibration(db, {
    digest: order.task.digest,
    sandbox: order.sandbox,
    verify_mode: fit?.mode ?? null,
    agent_network: fit?.agentNetwork ?? null,
    verifier_network: fit?.verifierNetwork ?? null,
    carried: fit?.carried ?? [],
    reason: found.kind === 'unfit' ? found.reason : null,
  })
  return found
}
