import { createHash } from 'node:crypto'
import { chmod, lstat, mkdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { ServerFolder } from './folder.ts'
import { changeOwner, type OsAccount, ownAccount } from './ownership.ts'
import { ignoreAbsent, PostgresUnavailable } from './unavailable.ts'

/** Socket paths are limited to 104 bytes (macOS) or 108 (Linux). */
const SOCKET_PATH_BYTES_MAX = 100
const SOCKET = '.s.PGSQL.5432'

/** Returns the folder itself, or a folder in the temporary one if the path is too long for a socket. */
export async function ensureSocketFolder(folder: ServerFolder, owner: OsAccount): Promise<string> {
  const path = fits(folder.path) ? folder.path : await createShortFolder(folder, owner)
  // Left by a killed server. A server under another account could not open them.
  for (const name of [SOCKET, `${SOCKET}.lock`]) await changeOwner(join(path, name), owner).catch(ignoreAbsent)
  return path
}

/** Removes a temporary socket folder. Call after the server has ended. */
export async function removeSocketFolder(folder: ServerFolder, path: string): Promise<void> {
  if (path !== folder.path) await rm(dirname(path), { recursive: true, force: true })
}

async function createShortFolder(folder: ServerFolder, owner: OsAccount): Promise<string> {
  const outer = shortFolder(folder)
  await createTrusted(outer)
  const inner = join(outer, 'socket')
  await mkdir(inner, { recursive: true, mode: 0o700 })
  await changeOwner(inner, owner)
  return inner
}

/** Returns the same name for the same folder, so that pools find the server again after a restart. */
function shortFolder(folder: ServerFolder): string {
  const name = `assay-${createHash('sha256').update(folder.path).digest('hex').slice(0, 16)}`
  const temporary = join(tmpdir(), name)
  return fits(join(temporary, 'socket')) ? temporary : join('/tmp', name)
}

const fits = (path: string): boolean => Buffer.byteLength(join(path, SOCKET)) <= SOCKET_PATH_BYTES_MAX

/** Creates a folder that only this user can write. In /tmp another user's folder could impersonate our server. */
async function createTrusted(path: string): Promise<void> {
  await mkdir(path, { mode: 0o711 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  const found = await lstat(path)
  if (found.isDirectory() && found.uid === ownAccount().uid && (found.mode & 0o022) === 0) return chmod(path, 0o711)
  throw new PostgresUnavailable(
    `PostgreSQL needs the folder ${path} for its socket, but another user created it or can write to it.`,
    'Remove it, choose a data folder with a shorter path',
  )
}
