import { chmod, cp, lstat, mkdir, readdir } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import { MAIN_SERVICE } from '../harbor/settings.ts'
import type { ComposeService, Environment } from '../harbor/task.ts'
import type { BaseFilesystem, Mount, SandboxUpload } from '../sandboxes/sandbox.ts'
import type { StepContext } from './step-context.ts'
import { packPath } from './tar.ts'

/** Users who may enter staged folders. */
type StagedReaders = 'all' | 'root'

/**
 * Copies folders of the task to one folder, later ones over earlier ones. Every user can read and execute the copies.
 * Sandboxes only ever mount copies, never the task itself.
 */
export async function stageFolders(
  taskFolder: string,
  folders: string[],
  target: string,
  readers: StagedReaders = 'all',
): Promise<string> {
  await mkdir(target, { recursive: true })
  for (const folder of folders) await cp(join(taskFolder, folder), target, { recursive: true, verbatimSymlinks: true })
  await makeReadable(target, readers)
  return target
}

/**
 * Lets users read files and enter folders. With the readers `root`, files stay readable for programs that get them as open
 * files, but no other user can enter a folder, not even one that is their current directory.
 */
async function makeReadable(path: string, readers: StagedReaders = 'all'): Promise<void> {
  const stats = await lstat(path)
  if (stats.isSymbolicLink()) return
  await chmod(path, stats.isDirectory() && readers === 'root' ? 0o700 : 0o755)
  if (!stats.isDirectory()) return
  for (const name of await readdir(path)) await makeReadable(join(path, name), readers)
}

/** Lists the named volumes that are mounted more than once, or by `main`, which has a sandbox for each phase. */
export function listSharedVolumes({ compose }: Pick<Environment, 'compose'>): string[] {
  const uses = (compose?.services ?? []).flatMap(({ name: service, mounts }) =>
    mounts.flatMap((mount) => (mount.kind === 'volume' && mount.name !== null ? [{ name: mount.name, service }] : [])),
  )
  const isShared = (name: string): boolean => {
    const services = uses.filter((use) => use.name === name).map(({ service }) => service)
    return services.length > 1 || services.includes(MAIN_SERVICE)
  }
  return [...new Set(uses.map(({ name }) => name))].filter(isShared)
}

/** Mounts of a compose service, and staged files that are copied into its sandbox. */
export type ServiceFiles = { mounts: Mount[]; copies: ServiceCopy[] }

type ServiceCopy = { path: string; target: string; isFolder: boolean }

/**
 * Stages the mounts of a compose service. Read-only folders are mounted as copies. Writable ones are copied into the
 * sandbox's own files, where its disk limit applies.
 */
export async function stageServiceFiles(context: StepContext, service: ComposeService | null): Promise<ServiceFiles> {
  const files: ServiceFiles = { mounts: [], copies: [] }
  if (service === null) return files
  for (const [index, mount] of service.mounts.entries()) {
    if (mount.kind === 'bind') await stageBind(context, mount, `${service.name}-${index}`, files)
    if (mount.kind === 'tmpfs') files.mounts.push(mount)
    // An anonymous volume starts with the image's files in every sandbox, so it needs no mount.
    if (mount.kind === 'volume' && mount.name !== null) files.mounts.push({ ...mount, name: mount.name })
  }
  return files
}

type BindMount = Extract<ComposeService['mounts'][number], { kind: 'bind' }>

async function stageBind(
  { folder, request }: StepContext,
  { source, target, readOnly }: BindMount,
  name: string,
  files: ServiceFiles,
): Promise<void> {
  const path = join(folder, name, posix.basename(source))
  await mkdir(dirname(path), { recursive: true })
  await cp(join(request.folder, source), path, { recursive: true, verbatimSymlinks: true })
  await makeReadable(path)
  if (readOnly) files.mounts.push({ kind: 'folder', source: path, target, readOnly })
  else files.copies.push({ path, target, isFolder: (await lstat(path)).isDirectory() })
}

/** Lists the uploads for copies that the base filesystem does not already contain. */
export const listUploads = ({ copies }: ServiceFiles, base: BaseFilesystem): SandboxUpload[] =>
  copies.filter(({ target }) => !isInBase(target, base)).map(toUpload)

function isInBase(target: string, base: BaseFilesystem): boolean {
  if (base.kind === 'image') return false
  if (base.kind === 'snapshot') return true
  return base.paths.some((path) => `${target}/`.startsWith(`${path}/`))
}

const toUpload = ({ path, target, isFolder }: ServiceCopy): SandboxUpload => ({
  target: isFolder ? target : posix.dirname(target),
  tar: packPath(path, { uid: 0, writableByAll: true }, posix.basename(target)),
})
