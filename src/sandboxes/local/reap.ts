import { join } from 'node:path'
import { removeCgroup } from '../kernel/cgroup.ts'
import { type NamespaceProcess, startNamespaceProcess } from '../kernel/namespace-process.ts'
import { listOrphans } from '../kernel/owned-names.ts'
import { killProcess, waitForEnd } from '../kernel/process-life.ts'
import type { SandboxFiles } from './files.ts'
import { DRAFTS } from './image-store.ts'
import type { Host } from './machine.ts'
import { holdsPipes } from './pipes.ts'
import { listAbandoned, removeRecord, type SandboxRecord } from './record.ts'
import { removeTree } from './remove-tree.ts'
import { line } from './shell.ts'

const DEATH_MS = 10_000

/** In the order in which things depend on each other; the record last, so that what fails is tried again. */
export async function takeAway(
  host: Host,
  { record, files, holder }: { record: SandboxRecord; files: SandboxFiles; holder: NamespaceProcess | undefined },
): Promise<void> {
  await removeCgroup(record.cgroups)
  if (holder) await letGo(host, holder, files)
  await takeAwayFolder(host, record)
}

export async function takeAwayFolder(host: Host, { id }: SandboxRecord): Promise<void> {
  await removeFolder(host, join('run', id))
  await removeRecord(join(host.store.folder, 'records'), id)
}

async function letGo({ holders, store }: Host, holder: NamespaceProcess, files: SandboxFiles): Promise<void> {
  const isSpare = holders.owns(holder)
  const isClean = (isSpare || files.disk !== undefined) && (await unmount(holder, store.folder, files))
  await (isSpare && isClean ? holders.giveBack(holder) : holder.end())
}

/** The kernel would do it too when the holder ends, but a little later. */
async function unmount(holder: NamespaceProcess, folder: string, { root, disk }: SandboxFiles): Promise<boolean> {
  const places = [root, ...(disk === undefined ? [] : [disk])].map((path) => join(folder, path))
  const { code } = await holder.run(`cd /; ${line('umount', ...places)}`).catch(() => ({ code: -1 }))
  return code === 0
}

/** An ordinary user may not even look into all that its sandbox made; root of its user namespace may. */
async function removeFolder({ store, rootless }: Host, path: string): Promise<unknown> {
  const folder = join(store.folder, path)
  if (!rootless) return removeTree(folder)
  const holder = await startNamespaceProcess({ rootless, beside: undefined, cwd: '/' })
  try {
    return await holder.runOrThrow('Removing the files of a sandbox', line('rm', '-rf', '--', folder))
  } finally {
    await holder.end()
  }
}

/** Removes files of dead servers. Their mounts have ended with them. */
export async function reap(host: Host): Promise<number> {
  const { store, log } = host
  const records = join(store.folder, 'records')
  const abandoned = await listAbandoned(records)
  for (const record of abandoned) {
    try {
      await reapOne(host, record)
      log.info({ sandbox: record.id }, 'removed a sandbox that no process looks after')
    } catch (error) {
      // A failed removal must not prevent the others.
      log.error({ sandbox: record.id, error: String(error) }, 'could not remove a sandbox that no process looks after')
    }
  }
  await reapDrafts(host)
  return abandoned.filter((record) => !holdsPipes(record)).length
}

/** Removes images that were being built or imported. */
async function reapDrafts(host: Host): Promise<void> {
  const names = await listOrphans(join(host.store.folder, DRAFTS.folder), DRAFTS.kind)
  for (const name of names) {
    await removeFolder(host, join(DRAFTS.folder, name)).catch((error: unknown) => {
      host.log.error({ draft: name, error: String(error) }, 'could not remove a draft that no process looks after')
    })
  }
}

async function reapOne(host: Host, record: SandboxRecord): Promise<void> {
  await removeCgroup(record.cgroups)
  if (record.holder) {
    await killProcess(record.holder)
    await waitForEnd(record.holder, DEATH_MS)
  }
  await takeAwayFolder(host, record)
}
