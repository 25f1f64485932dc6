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
import { ignoreAbsent } from './ignore-absent.ts'
import { findOwner, ownAccount } from './ownership.ts'
import { PostgresUnavailable } from './unavailable.ts'

export type Folder = { path: string; data: string; password: string; log: string; lock: string }

const DRAFT = 'draft-'

export async function openFolder(path: string): Promise<Folder> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  const real = await realpath(path)
  const folder = {
    path: real,
    data: join(real, 'data'),
    password: join(real, 'password'),
    log: join(real, 'log'),
    lock: join(real, 'lock'),
  }
  await refuseStranger(folder)
  await refuseForeign(folder)
  await chmod(real, 0o700)
  await access(real, constants.R_OK | constants.W_OK | constants.X_OK)
  return folder
}

/**
 * The password file tells who made the folder: as root the folder and the data may belong to the
 * account the server runs as. Taking over would lock its maker out.
 */
async function refuseStranger(folder: Folder): Promise<void> {
  const owner = (await findOwner(folder.password)) ?? (await findOwner(folder.path))
  const self = ownAccount()
  if (owner === undefined || owner.uid === self.uid) return
  throw new PostgresUnavailable(
    `PostgreSQL cannot use the folder ${folder.path}: it belongs to user ${owner.uid} and Assay runs as user ${self.uid}.`,
    'Start Assay as the owner of the folder, choose another folder',
  )
}

/** Its owner and rights are going to be changed, which must not happen to /tmp by a slip of the pen. */
async function refuseForeign(folder: Folder): Promise<void> {
  const names = await readdir(folder.path)
  if (names.length === 0 || names.includes(basename(folder.lock)) || names.includes(basename(folder.password))) return
  throw new PostgresUnavailable(
    `PostgreSQL cannot use the folder ${folder.path}: it holds other files and was not made by Assay.`,
    'Choose a new or empty folder',
  )
}

/** Call under the lock. Synced before the data is made: data without its password is lost. */
export async function ensurePassword(folder: Folder): Promise<string> {
  const existing = await readFile(folder.password, 'utf8').catch(ignoreAbsent)
  if (existing) return existing
  if (await findOwner(folder.data)) {
    throw new PostgresUnavailable(
      `The data in ${folder.data} cannot be opened: its password file ${folder.password} is missing.`,
      'Put it back, choose another folder',
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

/** What is made in a draft and then renamed is there completely or not at all. */
export const makeDraft = (folder: Folder): Promise<string> => mkdtemp(join(folder.path, DRAFT))

/** Call under the lock: then every draft is a leftover of a start that died. */
export async function removeDrafts(folder: Folder): Promise<void> {
  const drafts = (await readdir(folder.path)).filter((name) => name.startsWith(DRAFT))
  // An initdb whose starter was killed may still be writing: removing is tried again.
  await Promise.all(
    drafts.map((name) => rm(join(folder.path, name), { recursive: true, force: true, maxRetries: 20, retryDelay: 10 })),
  )
}

/** A rename outlives a power cut only when its folder is synced. */
export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, 'r')
  await folder.sync()
}
