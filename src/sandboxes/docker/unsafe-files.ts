import { Readable } from 'node:stream'
import { findInside } from '../kernel/inside.ts'
import { tarEnd, tarFile, tarHeader } from '../kernel/tar-writer.ts'
import { accountEntries, type FileKind, LOOKUP_SETTINGS, listUnsafePaths } from '../kernel/unsafe-files.ts'
import { imageAccounts } from './account.ts'
import { type Docker, EngineRefusal } from './client.ts'
import { statIn } from './container-files.ts'
import type { Engine } from './engine.ts'
import type { Layers } from './layers.ts'
import type { Left } from './remains.ts'

/** Lists what a container left where the engine opens files when the next one starts. */
export function listUnsafeFiles({ docker }: Engine, { layers, containerId }: Left): Promise<string[]> {
  return listUnsafePaths((path) => (layers ? findChanged(layers, path) : statOrUnsafe(docker, containerId, path)))
}

/** The engine refuses to look at a link that leads to itself. Such a file is as unsafe as any other link. */
const statOrUnsafe = (docker: Docker, containerId: string, path: string): Promise<FileKind | undefined> =>
  statIn(docker, containerId, path).catch((error: unknown) => {
    if (!(error instanceof EngineRefusal)) throw error
    return { isFile: false, isFolder: false, bytes: 0 }
  })

/** Replaces account files of a container that has not started where the engine could not open them. */
export async function repairAccountsOfStopped(engine: Engine, id: string, image: string): Promise<void> {
  const unsafe = await listUnsafePaths((path) => statOrUnsafe(engine.docker, id, path))
  if (unsafe.length > 0) await putAccounts(engine, id, image)
}

/** What the image itself has there is safe, so the changes are enough. A deletion is shown by a device. */
async function findChanged({ upper }: Layers, path: string): Promise<FileKind | undefined> {
  const stats = (await findInside(upper, path))?.stats
  if (stats === undefined || (stats.isCharacterDevice() && stats.rdev === 0)) return undefined
  return { isFile: stats.isFile() && path !== LOOKUP_SETTINGS, isFolder: stats.isDirectory(), bytes: stats.size }
}

/** Replaces account files of a running container that the engine cannot open when it adds a command. */
export async function repairAccounts(
  engine: Engine,
  running: { id: string; image: string; layers: Layers | undefined },
) {
  const { id, image, layers } = running
  const unsafe = layers ? await listUnsafePaths((path) => findChanged(layers, path)) : []
  if (unsafe.length > 0) await putAccounts(engine, id, image)
}

/** Puts the account files of the image in place of whatever is there, so that the engine can open them. */
export async function putAccounts(engine: Engine, id: string, image: string): Promise<void> {
  const files = accountEntries(await imageAccounts(engine, image))
  const folder = tarHeader({ path: 'etc', type: 'Directory', mode: 0o755, uid: 0, gid: 0, size: 0 })
  const parts = files.flatMap(({ path, content }) => tarFile(path, Buffer.from(content), 0o644))
  const body = Readable.from([folder, ...parts, tarEnd()], { objectMode: false })
  await engine.docker.call('PUT', `/containers/${id}/archive`, { query: { path: '/' }, body })
}
