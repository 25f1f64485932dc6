import { randomBytes } from 'node:crypto'
import {
  access,
  chmod,
  constants,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
} from 'node:fs/promises'
import { basename, join } from 'node:path'
import { findOwner, ownAccount } from './ownership.ts'
import { ignoreAbsent, PostgresUnavailable } from './unavailable.ts'

export type ServerFolder = { path: string; data: string; password: string; log: string; lock: string }

const DRAFT = 'draft-'

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
    'Start Assay as the owner of the folder, choose another folder',
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
  const existing = await readFile(folder.password, 'utf8').catch(ignoreAbsent)
  if (existing) return existing
  if (await findOwner(folder.data)) {
    throw new PostgresUnavailable(
      `The data in ${folder.data} cannot be opened: its password file ${folder.password} is missing.`,
      'Restore it, choose another folder',
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
export const createDraft = (folder: ServerFolder): Promise<string> => mkdtemp(join(folder.path, DRAFT))

/** Removes drafts of starts that died. Call under the lock: then no draft is in use. */
export async function removeDrafts(folder: ServerFolder): Promise<void> {
  const drafts = (await readdir(folder.path)).filter((name) => name.startsWith(DRAFT))
  // Retries, because an orphaned initdb may still be writing.
  await Promise.all(
    drafts.map((name) => rm(join(folder.path, name), { recursive: true, force: true, maxRetries: 20, retryDelay: 10 })),
  )
}

/** Syncs a folder, so that a rename in it survives a power cut. */
export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, 'r')
  await folder.sync()
}
