import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { removeCgroup } from './cgroup.ts'
import type { Files } from './files.ts'
import { type Holder, startHolder } from './holder.ts'
import type { Host } from './machine.ts'
import { killProcess, waitForEnd } from './process-life.ts'
import { listAbandoned, removeRecord, type SandboxRecord } from './record.ts'
import { line } from './shell.ts'

const DEATH_MS = 10_000

/** In the order in which things depend on each other; the record last, so that what fails is tried again. */
export async function takeAway(
  host: Host,
  { record, files, holder }: { record: SandboxRecord; files: Files; holder: Holder | undefined },
): Promise<void> {
  const { store } = host
  await removeCgroup(record.cgroups)
  if (holder && files.disk) await freeDisk(holder, store.folder, files)
  await holder?.end()
  await removeFolder(host, record.id)
  await removeRecord(join(store.folder, 'records'), record.id)
}

/** The kernel would do it too, but a little after the holder has ended. */
async function freeDisk(holder: Holder, folder: string, { root, disk = '' }: Files): Promise<void> {
  await holder.run(`cd /; ${line('umount', join(folder, root))}; ${line('umount', join(folder, disk))}`).catch(() => {})
}

/** An ordinary user may not even look into all that its sandbox made; root of its user namespace may. */
async function removeFolder({ store, rootless }: Host, id: string): Promise<void> {
  const folder = join(store.folder, 'run', id)
  if (!rootless) return rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
  const holder = await startHolder({ rootless, beside: undefined, cwd: '/' })
  try {
    await holder.must('Removing the files of a sandbox', line('rm', '-rf', '--', folder))
  } finally {
    await holder.end()
  }
}

/** What dead engines left. Their mounts went with them. */
export async function reap(host: Host): Promise<number> {
  const { store, log } = host
  const records = join(store.folder, 'records')
  const abandoned = await listAbandoned(records)
  for (const record of abandoned) {
    await removeCgroup(record.cgroups)
    if (record.holder) {
      await killProcess(record.holder)
      await waitForEnd(record.holder, DEATH_MS)
    }
    await removeFolder(host, record.id)
    await removeRecord(records, record.id)
    log.info({ sandbox: record.id }, 'removed a sandbox that no process looks after')
  }
  return abandoned.length
}
