import { createHash } from 'node:crypto'
import { chmod, lstat, mkdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Folder } from './folder.ts'
import { ignoreAbsent } from './ignore-absent.ts'
import { type Account, give, ownAccount } from './ownership.ts'
import { PostgresUnavailable } from './unavailable.ts'

/** The kernel takes 104 bytes (macOS) to 108 (Linux) for the path of a socket. */
const SOCKET_PATH_BYTES_MAX = 100
const SOCKET = '.s.PGSQL.5432'

/** The folder itself, or for a path too long for a socket a folder under the temporary one. */
export async function ensureSocketFolder(folder: Folder, owner: Account): Promise<string> {
  const path = fits(folder.path) ? folder.path : await makeShortFolder(folder, owner)
  // A server that was killed leaves these, and one that runs another way could not open them.
  for (const name of [SOCKET, `${SOCKET}.lock`]) await give(join(path, name), owner).catch(ignoreAbsent)
  return path
}

/** Call when the server has ended. */
export async function removeSocketFolder(folder: Folder, path: string): Promise<void> {
  if (path !== folder.path) await rm(dirname(path), { recursive: true, force: true })
}

async function makeShortFolder(folder: Folder, owner: Account): Promise<string> {
  const outer = shortFolder(folder)
  await makeTrusted(outer)
  const inner = join(outer, 'socket')
  await mkdir(inner, { recursive: true, mode: 0o700 })
  await give(inner, owner)
  return inner
}

/** Always the same name for the same folder, so that pools find the server again after a restart. */
function shortFolder(folder: Folder): string {
  const name = `assay-${createHash('sha256').update(folder.path).digest('hex').slice(0, 16)}`
  const temporary = join(tmpdir(), name)
  return fits(join(temporary, 'socket')) ? temporary : join('/tmp', name)
}

const fits = (path: string): boolean => Buffer.byteLength(join(path, SOCKET)) <= SOCKET_PATH_BYTES_MAX

/** Anyone may write to /tmp: a folder made by another would let them pose as our server. */
async function makeTrusted(path: string): Promise<void> {
  await mkdir(path, { mode: 0o711 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  const found = await lstat(path)
  if (found.isDirectory() && found.uid === ownAccount().uid && (found.mode & 0o022) === 0) return chmod(path, 0o711)
  throw new PostgresUnavailable(
    `PostgreSQL needs the folder ${path} for its socket, but someone else made it or may write to it.`,
    'Remove it, choose a data folder with a shorter path',
  )
}
