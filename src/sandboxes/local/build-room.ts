import { randomUUID } from 'node:crypto'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import { allFolders, cgroupFolders, makeCgroup, removeCgroup } from '../kernel/cgroup.ts'
import type { Limits } from '../sandbox.ts'
import type { Host } from './machine.ts'
import { makeRecord, removeRecord } from './record.ts'
import { quote } from './shell.ts'

const DAY_MS = 24 * 60 * 60 * 1000

/** What a build may take at most, so that it takes no other sandbox down. Its time is limited by whoever asked for it. */
const buildLimits = (): Limits => ({
  ...{ cpus: null, diskMb: null, outputBytes: 0, seconds: 0, pids: 4096 },
  memoryMb: Math.floor((totalmem() * 0.75) / 1024 / 1024),
})

/** Does its work with a line of shell that enters a cgroup. Whatever is in there at the end is killed. */
export async function inBuildRoom<T>(host: Host, work: (entering: string) => Promise<T>): Promise<T> {
  const layout = host.cgroups
  if (layout === undefined) return work('')
  const id = `build-${randomUUID()}`
  const records = join(host.store.folder, 'records')
  const record = await makeRecord(records, { id, deadline: Date.now() + DAY_MS, cgroups: allFolders(layout, id) })
  try {
    const limits = buildLimits()
    await makeCgroup(layout, id, limits, 0)
    const steps = cgroupFolders(layout, id, limits).map(
      (folder) => `echo 0 > ${quote(join(folder, 'cgroup.procs'))} && `,
    )
    return await work(steps.join(''))
  } finally {
    await removeCgroup(record.cgroups)
    await removeRecord(records, id)
  }
}
