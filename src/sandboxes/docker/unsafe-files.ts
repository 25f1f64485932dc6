import { Readable } from 'node:stream'
import { findInside } from '../kernel/inside.ts'
import { tarEnd, tarFile, tarHeader } from '../kernel/tar-writer.ts'
import { accountEntries, type FileKind, LOOKUP_SETTINGS, listUnsafePaths } from '../kernel/unsafe-files.ts'
import { imageAccounts } from './account.ts'
import { type Docker, EngineRefusal } from './client.ts'
import { statIn } from './container-files.ts'
import type { DockerEngine } from './engine.ts'
import type { ContainerLayers } from './layers.ts'
import type { StoppedContainer } from './stopped-sandbox.ts'

/** Lists unsafe files of a container at the paths that the engine opens when the next container starts. */
export function listUnsafeFiles(
  { docker }: DockerEngine,
  { layers, containerId }: StoppedContainer,
): Promise<string[]> {
  return listUnsafePaths((path) => (layers ? findChanged(layers, path) : statOrUnsafe(docker, containerId, path)))
}

/** Reads the type of a file. The engine refuses to stat a link to itself, which counts as unsafe like any link. */
const statOrUnsafe = (docker: Docker, containerId: string, path: string): Promise<FileKind | undefined> =>
  statIn(docker, containerId, path).catch((error: unknown) => {
    if (!(error instanceof EngineRefusal)) throw error
    return { isFile: false, isFolder: false, bytes: 0 }
  })

/** Replaces account files of a container that has not started where the engine could not open them. */
export async function repairAccountsOfStopped(engine: DockerEngine, id: string, image: string): Promise<void> {
  const unsafe = await listUnsafePaths((path) => statOrUnsafe(engine.docker, id, path))
  if (unsafe.length > 0) await putAccounts(engine, id, image)
}

/** Looks at the changes only, because the image itself is trusted. A deletion is a device with number 0. */
async function findChanged({ upper }: ContainerLayers, path: string): Promise<FileKind | undefined> {
  const stats = (await findInside(upper, path))?.stats
  if (stats === undefined || (stats.isCharacterDevice() && stats.rdev === 0)) return undefined
  return { isFile: stats.isFile() && path !== LOOKUP_SETTINGS, isFolder: stats.isDirectory(), bytes: stats.size }
}

/** Replaces account files of a running container that the engine cannot open when it adds a command. */
export async function repairAccounts(
  engine: DockerEngine,
  running: { id: string; image: string; layers: ContainerLayers | undefined },
) {
  const { id, image, layers } = running
  const find = (path: string) => (layers ? findChanged(layers, path) : statOrUnsafe(engine.docker, id, path))
  const unsafe = await listUnsafePaths(find)
  if (unsafe.length > 0) await putAccounts(engine, id, image)
}

/** Replaces the account files by those of the image, so that the engine can open them. */
export async function putAccounts(engine: DockerEngine, id: string, image: string): Promise<void> {
  const files = accountEntries(await imageAccounts(engine, image))
  const folder = tarHeader({ path: 'etc', type: 'Directory', mode: 0o755, uid: 0, gid: 0, size: 0 })
  const parts = files.flatMap(({ path, content }) => tarFile(path, Buffer.from(content), 0o644))
  const body = Readable.from([folder, ...parts, tarEnd()], { objectMode: false })
  await engine.docker.call('PUT', `/containers/${id}/archive`, { query: { path: '/' }, body })
}
