import { Readable } from 'node:stream'
import { readTarEntries, type TarEntry } from '../../harbor/tar-reader.ts'
import { shareSuccessByKey } from '../../platform/concurrency.ts'
import {
  ACCOUNT_FILE_MAX_BYTES,
  type AccountFiles,
  type FileKind,
  LOOKUP_SETTINGS,
  listUnsafePaths,
  resolveAccount,
  type SandboxIdentity,
  toAccountEntries,
} from '../kernel/accounts.ts'
import { findInside } from '../kernel/sandbox-path.ts'
import { tarEnd, tarFile, tarHeader } from '../kernel/tar-writer.ts'
import type { Image } from '../sandbox.ts'
import { type Docker, EngineRefusal, ignoring } from './client.ts'
import { statIn, withDraft } from './container.ts'
import type { DockerEngine } from './engine.ts'
import type { ContainerLayers } from './layers.ts'
import type { StoppedContainer } from './stopped-sandbox.ts'

/**
 * Resolves a user by the account files of the image, which no agent has written to. The launcher runs as root, so that
 * other users cannot trace it, and switches to this user only for the command. Returns undefined for root, and if there
 * is no launcher.
 */
export async function findIdentity(
  engine: DockerEngine,
  image: Image,
  user: string | number,
): Promise<SandboxIdentity> {
  if (engine.launcher === undefined || ROOT_USER.test(String(user))) return undefined
  return resolveAccount(await loadImageAccounts(engine, image.digest), user)
}

/** A user and an optional group that are both root, by name or by number. Docker takes an empty one for root. */
const ROOT_USER = /^(root|0)?(:(root|0)?)?$/

/** Returns the account files of an image, read once. */
const loadImageAccounts = (engine: DockerEngine, image: string): Promise<AccountFiles> =>
  shareSuccessByKey(engine.accounts, image, () =>
    withDraft(engine, { image, command: null }, (id) => readAccounts(engine.docker, id)),
  )

/** Reads the account files of a container that has not started. */
const readAccounts = async (docker: Docker, id: string): Promise<AccountFiles> => ({
  passwd: await readFile(docker, id, '/etc/passwd'),
  group: await readFile(docker, id, '/etc/group'),
})

/** Returns the content of a regular file of a container, or undefined if there is none. */
async function readFile(docker: Docker, id: string, path: string): Promise<string | undefined> {
  const answer = await docker.open('GET', `/containers/${id}/archive`, { query: { path } }).catch(ignoring(404))
  if (answer === undefined) return undefined
  // The first entry is the file itself, or the folder that is in its place.
  for await (const entry of readTarEntries(answer)) return await readText(entry)
  return undefined
}

async function readText({ type, bytes, content }: TarEntry): Promise<string | undefined> {
  const isReadable = (type === 'File' || type === 'OldFile') && bytes <= ACCOUNT_FILE_MAX_BYTES
  const chunks: Buffer[] = []
  for await (const chunk of content()) if (isReadable) chunks.push(chunk)
  return isReadable ? Buffer.concat(chunks).toString() : undefined
}

/** Lists unsafe files at the paths that the engine opens when it starts the container, or a later one with its files. */
export function listUnsafeFiles(
  { docker }: DockerEngine,
  { layers, containerId }: Pick<StoppedContainer, 'layers' | 'containerId'>,
): Promise<string[]> {
  return listUnsafePaths((path) => (layers ? statChanged(layers, path) : statOrUnsafe(docker, containerId, path)))
}

/** Reads the type of a file. The engine refuses to stat a link to itself, which counts as unsafe like any link. */
const statOrUnsafe = (docker: Docker, containerId: string, path: string): Promise<FileKind | undefined> =>
  statIn(docker, containerId, path).catch((error: unknown) => {
    if (!(error instanceof EngineRefusal)) throw error
    return { isFile: false, isFolder: false, bytes: 0 }
  })

/**
 * Reads the type of a changed file. Returns undefined for a file of the image, which is trusted, and for a deleted file,
 * which overlay marks by a device with number 0.
 */
async function statChanged({ upper }: ContainerLayers, path: string): Promise<FileKind | undefined> {
  const stats = (await findInside(upper, path))?.stats
  const isDeletionMark = stats?.isCharacterDevice() && stats.rdev === 0
  if (stats === undefined || isDeletionMark) return undefined
  return { isFile: stats.isFile() && path !== LOOKUP_SETTINGS, isFolder: stats.isDirectory(), bytes: stats.size }
}

/** Replaces the account files of a container if the engine could not open them to start it or to run a command. */
export async function repairAccounts(
  engine: DockerEngine,
  container: { id: string; image: string; layers: ContainerLayers | undefined },
) {
  const { id, image, layers } = container
  const unsafe = await listUnsafeFiles(engine, { layers, containerId: id })
  if (unsafe.length > 0) await putAccounts(engine, id, image)
}

/** Replaces the account files with those of the image. */
export async function putAccounts(engine: DockerEngine, id: string, image: string): Promise<void> {
  const files = toAccountEntries(await loadImageAccounts(engine, image))
  const folder = tarHeader({ path: 'etc', type: 'Directory', mode: 0o755, uid: 0, gid: 0, size: 0 })
  const parts = files.flatMap(({ path, content }) => tarFile(path, Buffer.from(content), 0o644))
  const body = Readable.from([folder, ...parts, tarEnd()], { objectMode: false })
  await engine.docker.call('PUT', `/containers/${id}/archive`, { query: { path: '/' }, body })
}
