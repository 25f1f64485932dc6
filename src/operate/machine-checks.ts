import { access, constants, readFile, stat, statfs } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { readKeys, resolveKeySource } from '../credentials/key-file.ts'
import { errorText } from '../platform/errors.ts'
import { requireBinaries } from '../platform/postgres/binaries.ts'

/** Result of a check, with the way to fix a failure. */
export type CheckResult = { name: string; ok: boolean; detail: string; fix: string | null }

/** Result of a check of the doctor. One that is not required is only information. */
export type Diagnosis = CheckResult & { required: boolean }

export const pass = (name: string, detail: string): Diagnosis => ({ name, ok: true, detail, fix: null, required: true })
export const fail = (name: string, detail: string, fix: string): Diagnosis => ({
  name,
  ok: false,
  detail,
  fix,
  required: true,
})
/** Reports a failed check that is not required. */
export const note = (name: string, detail: string, fix: string): Diagnosis => ({
  ...fail(name, detail, fix),
  required: false,
})

const NODE_VERSION_MIN = 24

export function diagnoseNode(): Diagnosis {
  const { node } = process.versions
  if (Number.parseInt(node, 10) >= NODE_VERSION_MIN) return pass('Node', node)
  return fail(
    'Node',
    `${node}; Assay needs ${NODE_VERSION_MIN} or newer`,
    'Run npm ci, which installs it, or install it yourself.',
  )
}

export async function diagnosePostgres(databaseUrl: string | undefined): Promise<Diagnosis> {
  if (databaseUrl) return pass('PostgreSQL', `of your own, at ${toDisplayAddress(databaseUrl)} (DATABASE_URL)`)
  try {
    return pass('PostgreSQL', `${(await requireBinaries()).version} comes with Assay`)
  } catch (error) {
    return fail('PostgreSQL', errorText(error), 'Run npm ci, or set DATABASE_URL.')
  }
}

/** Removes user and password from a database URL. */
function toDisplayAddress(databaseUrl: string): string {
  const url = URL.parse(databaseUrl)
  return url ? `${url.searchParams.get('host') ?? url.host}${url.pathname}` : 'an address that cannot be read'
}

export type DataFolderState = 'absent' | 'ours' | 'not ours'

const WRITABLE_BY_OTHERS = 0o022
const OPEN_TO_OTHERS = 0o077

export async function diagnoseDataFolder(path: string): Promise<{ state: DataFolderState; diagnosis: Diagnosis }> {
  const name = 'data folder'
  const stats = await stat(path).catch(() => undefined)
  if (!stats) return { state: 'absent', diagnosis: await diagnoseAbsentFolder(name, path) }
  if (!stats.isDirectory()) {
    return { state: 'not ours', diagnosis: fail(name, `${path} is not a folder`, 'Choose another with ASSAY_DATA.') }
  }

  const self = process.geteuid?.()
  if (self !== undefined && stats.uid !== self) {
    const detail = `${path} belongs to user ${stats.uid}, and this is user ${self}`
    return { state: 'not ours', diagnosis: fail(name, detail, 'Run assay as the owner of the folder.') }
  }
  return { state: 'ours', diagnosis: await diagnoseOwnFolder(name, path, stats.mode) }
}

async function diagnoseAbsentFolder(name: string, path: string): Promise<Diagnosis> {
  const parent = await findExistingParent(path)
  if (await isWritable(parent)) return pass(name, `${path} does not exist yet; the first start creates it`)
  return fail(name, `${path} cannot be created: ${parent} is not writable`, 'Choose another folder with ASSAY_DATA.')
}

async function diagnoseOwnFolder(name: string, path: string, mode: number): Promise<Diagnosis> {
  const modeText = `mode ${(mode & 0o777).toString(8).padStart(4, '0')}`
  if (!(await isWritable(path))) return fail(name, `${path} is not writable (${modeText})`, `chmod 700 ${path}`)
  if ((mode & WRITABLE_BY_OTHERS) !== 0)
    return fail(name, `${path} can be written by others (${modeText})`, `chmod 700 ${path}`)
  if ((mode & OPEN_TO_OTHERS) !== 0)
    return note(name, `${path} can be read by others (${modeText}); secret files in it cannot`, `chmod 700 ${path}`)
  return pass(name, `${path}, writable, closed to others`)
}

const isWritable = (path: string): Promise<boolean> => canAccess(path, constants.W_OK | constants.X_OK)

const canAccess = (path: string, mode: number): Promise<boolean> =>
  access(path, mode).then(
    () => true,
    () => false,
  )

async function findExistingParent(path: string): Promise<string> {
  const parent = dirname(path)
  if (parent === path) return path
  return (await stat(parent).catch(() => undefined)) ? parent : findExistingParent(parent)
}

const FREE_BYTES_MIN = 1e9

export async function diagnoseDisk(path: string): Promise<Diagnosis> {
  const disk = await statfs(path).catch(async () => statfs(await findExistingParent(path)))
  const freeBytes = disk.bavail * disk.bsize
  const detail = `${(freeBytes / 1e9).toFixed(1)} GB are free`
  if (freeBytes >= FREE_BYTES_MIN) return pass('disk', detail)
  return fail('disk', detail, `Free some space, at least ${FREE_BYTES_MIN / 1e9} GB.`)
}

const WATCHES_SETTING = 'fs.epoll.max_user_watches'
/** Minimum kernel memory of one epoll watch, which counts towards the memory limit of its sandbox. */
const WATCH_BYTES = 200

/** Checks the limit on epoll watches. Returns undefined if the kernel has no such limit. */
export async function findWatchesDiagnosis(): Promise<Diagnosis | undefined> {
  const text = await readFile('/proc/sys/fs/epoll/max_user_watches', 'utf8').catch(() => undefined)
  return text === undefined ? undefined : diagnoseWatches(Number(text), totalmem())
}

/**
 * Checks that the memory limits of sandboxes end a program before it has taken every epoll watch of its user. The kernel
 * counts watches per user of the host, and Node ends the service when it cannot add one.
 */
export function diagnoseWatches(watches: number, memoryBytes: number): Diagnosis {
  const needed = Math.ceil(memoryBytes / WATCH_BYTES)
  if (watches >= needed) return pass('epoll watches', `${watches}, more than fit into memory`)
  return note(
    'epoll watches',
    `${watches}; a program in a sandbox can take all of them, which ends the service`,
    `sysctl -w ${WATCHES_SETTING}=${needed}, and the same in /etc/sysctl.d.`,
  )
}

export type MasterKeySettings = { credentialStorage: boolean; dataFolder: string; secretKey: string | undefined }

/** Checks the master key itself. Only the database can tell whether it is the right one. */
export async function diagnoseKeyFile(settings: MasterKeySettings): Promise<Diagnosis> {
  const name = 'master key'
  if (!settings.credentialStorage) return pass(name, 'not needed: credential storage is off')
  try {
    const source = resolveKeySource(settings)
    const mode = source.kind === 'file' ? (await stat(source.path).catch(() => undefined))?.mode : undefined
    if (source.kind === 'file' && ((mode ?? 0) & OPEN_TO_OTHERS) !== 0)
      return fail(name, `${source.path} can be read or written by others`, `chmod 600 ${source.path}`)
    const keys = await readKeys(source)
    if (keys.length === 0) return pass(name, 'does not exist yet; the first start creates it')
    return pass(name, source.kind === 'file' ? `${source.path}, closed to others` : 'in ASSAY_SECRET_KEY')
  } catch (error) {
    return fail(name, errorText(error), 'Put the key back from a copy; without it stored credentials cannot be opened.')
  }
}

const PROGRAMS = [
  { command: 'git', use: 'repositories' },
  { command: 'bwrap', use: 'sandboxes without root' },
  { command: 'runc', use: 'sandboxes without a daemon' },
  { command: 'docker', use: 'sandboxes in containers' },
]

/** Checks for programs that some work needs. */
export const diagnosePrograms = (searchPath: string): Promise<Diagnosis[]> =>
  Promise.all(
    PROGRAMS.map(async ({ command, use }) => {
      const path = await findCommand(command, searchPath)
      if (path) return { ...pass(command, path), required: false }
      return note(command, `not installed; it is for ${use}`, `assay setup ${command}`)
    }),
  )

async function findCommand(command: string, searchPath: string): Promise<string | undefined> {
  for (const folder of searchPath.split(delimiter).filter((each) => each !== '')) {
    const path = join(folder, command)
    if (await canAccess(path, constants.X_OK)) return path
  }
  return undefined
}
