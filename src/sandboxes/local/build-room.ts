import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { DEFAULT_LIMITS } from '../../harbor/default-limits.ts'
import { allFolders, cgroupFolders, listProcesses, makeCgroup, removeCgroup } from '../kernel/cgroup.ts'
import type { BuildLimits, SandboxLimits } from '../sandbox.ts'
import type { Host } from './machine.ts'
import { makeRecord, removeRecord } from './record.ts'
import { quote } from './shell.ts'

const DAY_MS = 24 * 60 * 60 * 1000

/** The time of a build is limited by its caller, and its disk is watched by the builder. */
const roomLimits = (limits: BuildLimits): SandboxLimits => ({
  ...DEFAULT_LIMITS,
  ...limits,
  pids: 4096,
  outputBytes: 0,
  seconds: 0,
})

/** `entering` is a line of shell that enters the cgroup of a build; `processes` are those in it. */
export type BuildRoom = { entering: string; processes: () => Promise<number[]> }

/** Does its work with a line of shell that enters a cgroup. Whatever is in there at the end is killed. */
export async function inBuildRoom<T>(
  host: Host,
  limits: BuildLimits,
  work: (room: BuildRoom) => Promise<T>,
): Promise<T> {
  const layout = host.cgroups
  if (layout === undefined) return work({ entering: '', processes: async () => [] })
  const id = `build-${randomUUID()}`
  const records = join(host.store.folder, 'records')
  const record = await makeRecord(records, { id, deadline: Date.now() + DAY_MS, cgroups: allFolders(layout, id) })
  try {
    await makeCgroup(layout, id, roomLimits(limits), 0)
    const folders = cgroupFolders(layout, id)
    const steps = folders.map((folder) => `echo 0 > ${quote(join(folder, 'cgroup.procs'))} && `)
    return await work({ entering: steps.join(''), processes: () => listProcesses(folders[0] ?? '') })
  } finally {
    await removeCgroup(record.cgroups)
    await removeRecord(records, id)
  }
}
