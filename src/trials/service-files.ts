import { cp, lstat, mkdir } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import type { ComposeService } from '../harbor/task.ts'
import type { BaseFilesystem, Mount, SandboxUpload } from '../sandboxes/sandbox.ts'
import type { Bench } from './bench.ts'
import { openUp } from './stage.ts'
import { tarOf } from './tar.ts'

/** What a compose service has besides its image. */
export type ServiceFiles = { mounts: Mount[]; copies: Copy[] }

/** A staged file or folder that becomes part of the sandbox's own files. */
type Copy = { path: string; target: string; isFolder: boolean }

/**
 * Folders of the task are never given away themselves. What a service may only read is a copy that is mounted. What it may
 * write to is put into its own files, where its limit on disk holds.
 */
export async function serviceFiles(bench: Bench, service: ComposeService | null): Promise<ServiceFiles> {
  const files: ServiceFiles = { mounts: [], copies: [] }
  if (service === null) return files
  for (const [index, mount] of service.mounts.entries()) {
    if (mount.kind === 'bind') await addBind(bench, mount, `${service.name}-${index}`, files)
    if (mount.kind === 'tmpfs') files.mounts.push(mount)
    // One without a name is new for each sandbox, and begins with what the image has there: its own files do as well.
    if (mount.kind === 'volume' && mount.name !== null) files.mounts.push({ ...mount, name: mount.name })
  }
  return files
}

type Bind = Extract<ComposeService['mounts'][number], { kind: 'bind' }>

async function addBind(
  bench: Bench,
  { source, target, readOnly }: Bind,
  name: string,
  files: ServiceFiles,
): Promise<void> {
  const path = await stageBind(bench, source, name)
  if (readOnly) files.mounts.push({ kind: 'folder', source: path, target, readOnly })
  else files.copies.push({ path, target, isFolder: (await lstat(path)).isDirectory() })
}

async function stageBind(bench: Bench, source: string, name: string): Promise<string> {
  const path = join(bench.folder, name, posix.basename(source))
  await mkdir(dirname(path), { recursive: true })
  await cp(join(bench.request.folder, source), path, { recursive: true, verbatimSymlinks: true })
  await openUp(path)
  return path
}

/** The copies that are not among what the sandbox begins with already. */
export const insertsFor = ({ copies }: ServiceFiles, seed: BaseFilesystem): SandboxUpload[] =>
  copies.filter(({ target }) => isNew(target, seed)).map(insertOf)

function isNew(target: string, seed: BaseFilesystem): boolean {
  if (seed.kind === 'image') return true
  if (seed.kind === 'snapshot') return false
  return !seed.paths.some((path) => `${target}/`.startsWith(`${path}/`))
}

const insertOf = ({ path, target, isFolder }: Copy): SandboxUpload => ({
  target: isFolder ? target : posix.dirname(target),
  tar: tarOf(path, { uid: 0, open: true }, posix.basename(target)),
})
