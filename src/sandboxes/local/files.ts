import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Holder } from '../kernel/holder.ts'
import { findInside, partsOf } from '../kernel/inside.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { type Host, overlayOptions } from './machine.ts'
import { line } from './shell.ts'

/** The files of one sandbox. Paths are relative to the store, except `folder`. */
export type Files = {
  folder: string
  root: string
  /** What it changed, the latest first: its own upper layer, then those it was seeded with. */
  changes: string[]
  layers: string[]
  /** Its own disk, when the kernel holds its size. */
  disk: string | undefined
}

const MEGABYTE = 1024 * 1024
/** For the tables of the filesystem itself. */
const DISK_SPARE = 1.04
const DISK_MIN_MB = 8
/** A larger one is watched: what is written between two looks is a small part of it, and a disk costs as much as a sandbox. */
const DISK_HARD_MAX_MB = 4096

export function planFiles(host: Host, id: string, layers: string[], diskMb: number): Files {
  const own = join('run', id)
  const disk = host.loop && diskMb <= DISK_HARD_MAX_MB ? join(own, 'disk') : undefined
  return {
    folder: join(host.store.folder, own),
    root: join(own, 'root'),
    changes: [join(disk ?? own, 'upper')],
    layers,
    disk,
  }
}

/** Mounts the layers of the image, what the sandbox was seeded with and its own. */
export async function mountFiles(host: Host, holder: Holder, files: Files, diskMb: number): Promise<void> {
  const [upper = '', ...seeds] = files.changes
  const work = join(upper, '..', 'work')
  const lowers = [...seeds, ...files.layers].join(':')
  const options = `lowerdir=${lowers},upperdir=${upper},workdir=${work},${overlayOptions(host.rootless)}`
  await mkdir(join(host.store.folder, files.root), { recursive: true })
  for (const path of files.disk === undefined ? [upper, work] : []) {
    await mkdir(join(host.store.folder, path), { mode: 0o755 })
  }
  const steps = [
    line('cd', host.store.folder),
    ...(files.disk === undefined ? [] : [...diskSteps(files.disk, diskMb), line('mkdir', '-m', '755', upper, work)]),
    line('mount', '-t', 'overlay', 'overlay', '-o', `nosuid,nodev,${options}`, files.root),
  ]
  await holder.must('Making the files of a sandbox', steps.join(' && '))
}

function diskSteps(disk: string, diskMb: number): string[] {
  const bytes = Math.ceil(Math.max(diskMb, DISK_MIN_MB) * DISK_SPARE) * MEGABYTE
  return [
    line('truncate', '-s', String(bytes), `${disk}.img`),
    // No journal and no tables in advance: it does not outlive a crash, and most of it is never used.
    line('mkfs.ext4', '-q', '-m', '0', '-O', '^has_journal', '-E', 'lazy_itable_init=1,nodiscard', `${disk}.img`),
    line('mkdir', disk),
    line('mount', '-o', 'loop,noinit_itable,nosuid,nodev', `${disk}.img`, disk),
  ]
}

/** Where the sandbox's root is for this process. */
export const rootOf = (host: Host, holder: Holder, files: Files): string =>
  join(holder.root, host.store.folder, files.root)

/** A link there would lead whoever mounts on it, with all our rights, to a place of this machine. */
export async function refuseLinks(root: string, path: string): Promise<void> {
  const parts = partsOf(path)
  for (let length = 1; length <= parts.length; length += 1) {
    const place = await findInside(root, parts.slice(0, length).join('/'))
    if (place === undefined) return
    if (place.stats.isSymbolicLink()) {
      throw new SandboxUnavailable(
        `${path} cannot be used in the sandbox: /${parts.slice(0, length).join('/')} is a link.`,
      )
    }
  }
}
