import { setTimeout as wait } from 'node:timers/promises'
import type { Comparison } from '../../src/comparisons/shapes/schema.ts'
import { seeded } from '../support/seeded.ts'
import type { Fleet, KillTarget } from './fleet.ts'
import { sandboxesIn } from './leftovers.ts'
import type { PatientUser } from './patient.ts'

export type Storm = { kills: Record<string, number>; sandboxes: Set<string> }

const LOOK_MS = 50
/** Maximum delay of a kill after the trial it waits for. */
const LATER_MS = 600

type StormPlan = { id: string; trials: number; victims: readonly KillTarget[]; seed: number }

/** Returns victims of a fleet that the seed determines. */
export function chooseVictims({ victims }: Fleet, kills: number, seed: number): KillTarget[] {
  const random = seeded(seed)
  return Array.from({ length: kills }).flatMap(() => victims[Math.floor(random() * victims.length)] ?? [])
}

/** Kills the victims in sequence, at times that the seed determines. */
export async function storm(fleet: Fleet, user: PatientUser, { id, trials, victims, seed }: StormPlan): Promise<Storm> {
  const random = seeded(seed)
  const moments = victims.map(() => Math.floor(random() * trials)).sort((a, b) => a - b)
  const done: Storm = { kills: {}, sandboxes: new Set() }
  for (const [index, victim] of victims.entries()) {
    const moment = moments[index] ?? 0
    const laterMs = random() * LATER_MS
    await until(user, id, (status) => endedOf(status) >= moment)
    await wait(laterMs)
    await victim.kill()
    for (const sandbox of sandboxesIn(fleet.dataFolder)) done.sandboxes.add(sandbox)
    done.kills[victim.kind] = (done.kills[victim.kind] ?? 0) + 1
  }
  return done
}

/** Polls until the condition holds or can no longer hold. */
export async function until(user: PatientUser, id: string, isSo: (status: Comparison) => boolean): Promise<Comparison> {
  for (;;) {
    const status = await user.read(id)
    if (isSo(status)) return status
    if (!['submitting', 'running'].includes(status.state))
      throw new Error(`It is ${status.state}: ${JSON.stringify({ ...status, settings: undefined })}`)
    await wait(LOOK_MS)
  }
}

const endedOf = ({ trials }: Comparison): number => trials.passed + trials.failed + trials.errored
