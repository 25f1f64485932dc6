import { createHash, randomBytes } from 'node:crypto'
import {
  access,
  chmod,
  constants,
  lchown,
  lstat,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
} from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { syncFolder } from '../data-folder.ts'
import { ignoreCode } from '../errors.ts'
import { PostgresUnavailable } from './unavailable.ts'

/** The folder of an embedded server, and the paths of its files. */
export type ServerFolder = { path: string; data: string; password: string; log: string; lock: string }

const DRAFT_PREFIX = 'draft-'

/** Creates the folder, or checks that it belongs to this user and to Assay. Throws `PostgresUnavailable`. */
export async function openFolder(path: string): Promise<ServerFolder> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  const real = await realpath(path)
  const folder = {
    path: real,
    data: join(real, 'data'),
    password: join(real, 'password'),
    log: join(real, 'log'),
    lock: join(real, 'lock'),
  }
  await requireOwner(folder)
  await requireOwnContents(folder)
  await chmod(real, 0o700)
  await access(real, constants.R_OK | constants.W_OK | constants.X_OK)
  return folder
}

/**
 * Requires that this user created the folder, according to its password file: with root, the folder and the data may
 * belong to the account of the server. Taking over another user's folder would lock that user out.
 */
async function requireOwner(folder: ServerFolder): Promise<void> {
  const owner = (await findOwner(folder.password)) ?? (await findOwner(folder.path))
  const self = ownAccount()
  if (owner === undefined || owner.uid === self.uid) return
  throw new PostgresUnavailable(
    `PostgreSQL cannot use the folder ${folder.path}: it belongs to user ${owner.uid} but Assay runs as user ${self.uid}.`,
    'Start Assay as the owner of the folder',
    'choose another folder',
  )
}

/** Rejects a folder with other files: its owner and mode will be changed, which must not happen to /tmp by mistake. */
async function requireOwnContents(folder: ServerFolder): Promise<void> {
  const names = await readdir(folder.path)
  if (names.length === 0 || names.includes(basename(folder.lock)) || names.includes(basename(folder.password))) return
  throw new PostgresUnavailable(
    `PostgreSQL cannot use the folder ${folder.path}: it contains other files and was not created by Assay.`,
    'Choose a new or empty folder',
  )
}

/** Returns the password, creating it first if needed. Call under the lock. Synced before the data is created: data without its password is lost. */
export async function ensurePassword(folder: ServerFolder): Promise<string> {
  const existing = await readFile(folder.password, 'utf8').catch(ignoreCode('ENOENT'))
  if (existing) return existing
  if (await findOwner(folder.data)) {
    throw new PostgresUnavailable(
      `The data in ${folder.data} cannot be opened: its password file ${folder.password} is missing.`,
      'Restore it',
      'choose another folder',
    )
  }

  const password = randomBytes(32).toString('base64url')
  await writeSecret(`${folder.password}.new`, password)
  await rename(`${folder.password}.new`, folder.password)
  await syncFolder(folder.path)
  return password
}

export async function writeSecret(path: string, secret: string): Promise<void> {
  await rm(path, { force: true })
  await using file = await open(path, 'wx', 0o600)
  await file.writeFile(secret)
  await file.sync()
}

/** Creates a draft folder. Its contents are renamed into place when complete, so that nothing is ever half created. */
export const createDraft = (folder: ServerFolder): Promise<string> => mkdtemp(join(folder.path, DRAFT_PREFIX))

/** Removes drafts of starts that died. Call under the lock: then no draft is in use. */
export async function removeDrafts(folder: ServerFolder): Promise<void> {
  const drafts = (await readdir(folder.path)).filter((name) => name.startsWith(DRAFT_PREFIX))
  // Retries, because an orphaned initdb may still be writing.
  await Promise.all(
    drafts.map((name) => rm(join(folder.path, name), { recursive: true, force: true, maxRetries: 20, retryDelay: 10 })),
  )
}

/** Socket paths are limited to 104 bytes (macOS) or 108 (Linux). */
const SOCKET_PATH_BYTES_MAX = 100
/** Name of the server's socket in its folder. PostgreSQL adds `.lock` for the lock file of the socket. */
export const SOCKET_FILE = '.s.PGSQL.5432'

/** Returns the folder itself, or a folder in the temporary one if the path is too long for a socket. */
export async function ensureSocketFolder(folder: ServerFolder, owner: OsAccount): Promise<string> {
  const path = fitsSocketPath(folder.path) ? folder.path : await createShortFolder(folder, owner)
  // A killed server leaves these files, and a server under another account could not open them.
  for (const name of [SOCKET_FILE, `${SOCKET_FILE}.lock`])
    await changeOwner(join(path, name), owner).catch(ignoreCode('ENOENT'))
  return path
}

/** Removes a temporary socket folder. Call after the server has ended. */
export async function removeSocketFolder(folder: ServerFolder, path: string): Promise<void> {
  if (path !== folder.path) await rm(dirname(path), { recursive: true, force: true })
}

async function createShortFolder(folder: ServerFolder, owner: OsAccount): Promise<string> {
  const outer = toShortFolder(folder)
  await createTrustedFolder(outer)
  const inner = join(outer, 'socket')
  await mkdir(inner, { recursive: true, mode: 0o700 })
  await changeOwner(inner, owner)
  return inner
}

/** Returns the same path for the same folder, so that connection pools find the server again after a restart. */
function toShortFolder(folder: ServerFolder): string {
  const name = `assay-${createHash('sha256').update(folder.path).digest('hex').slice(0, 16)}`
  const temporary = join(tmpdir(), name)
  return fitsSocketPath(join(temporary, 'socket')) ? temporary : join('/tmp', name)
}

const fitsSocketPath = (path: string): boolean => Buffer.byteLength(join(path, SOCKET_FILE)) <= SOCKET_PATH_BYTES_MAX

/** Permission bits with which group or others can write. */
const WRITABLE_BY_OTHERS = 0o022

/** Creates a folder that only this user can write. In /tmp another user's folder could impersonate our server. */
async function createTrustedFolder(path: string): Promise<void> {
  await mkdir(path, { mode: 0o711 }).catch(ignoreCode('EEXIST'))
  const stats = await lstat(path)
  const isWritableByOthers = (stats.mode & WRITABLE_BY_OTHERS) !== 0
  if (stats.isDirectory() && stats.uid === ownAccount().uid && !isWritableByOthers) return chmod(path, 0o711)
  throw new PostgresUnavailable(
    `PostgreSQL needs the folder ${path} for its socket, but another user created it or can write to it.`,
    'Remove it',
    'choose a data folder with a shorter path',
  )
}

export type OsAccount = { uid: number; gid: number }

/** Unprivileged accounts. initdb needs one that exists in /etc/passwd. */
const UNPRIVILEGED = ['postgres', '_postgres', 'nobody']

export const ownAccount = (): OsAccount => ({ uid: process.geteuid?.() ?? -1, gid: process.getegid?.() ?? -1 })

export async function findUnprivileged(): Promise<OsAccount | undefined> {
  const text = (await readFile('/etc/passwd', 'utf8').catch(ignoreCode('ENOENT'))) ?? ''
  const lines = text.split('\n').map((line) => line.split(':'))
  const account = UNPRIVILEGED.map((name) => lines.find(([first]) => first === name)).find((line) => line !== undefined)
  const [, , uid, gid] = account ?? []
  return account && { uid: Number(uid), gid: Number(gid) }
}

/** Returns true if the user id has an account. Containers may run without one, which initdb refuses. */
export function hasAccount(account: OsAccount): boolean {
  try {
    return userInfo().uid === account.uid
  } catch {
    return false
  }
}

async function findOwner(path: string): Promise<OsAccount | undefined> {
  const stats = await stat(path).catch(ignoreCode('ENOENT'))
  return stats && { uid: stats.uid, gid: stats.gid }
}

/** Changes the owner of a tree. The top comes last, so that an interrupted change is detected and repeated. */
export async function changeTreeOwner(top: string, owner: OsAccount): Promise<void> {
  if ((await lstat(top)).uid === owner.uid) return
  const entries = await readdir(top, { recursive: true, withFileTypes: true })
  await Promise.all(entries.map((entry) => lchown(join(entry.parentPath, entry.name), owner.uid, owner.gid)))
  await changeOwner(top, owner)
}

export async function changeOwner(path: string, owner: OsAccount): Promise<void> {
  if ((await lstat(path)).uid !== owner.uid) await lchown(path, owner.uid, owner.gid)
}
