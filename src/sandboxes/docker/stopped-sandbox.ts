import type { Dirent } from 'node:fs'
import { opendir } from 'node:fs/promises'
import { posix } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ignoreCode } from '../../platform/errors.ts'
import { parseUntrustedJson } from '../../platform/untrusted-json.ts'
import { listChanges } from '../kernel/changes.ts'
import { isTooDeep } from '../kernel/collect.ts'
import { type FilteredTar, filterTar, type TarFilterOptions } from '../kernel/filter-tar.ts'
import { findInside, type HostPath, toPathParts } from '../kernel/sandbox-path.ts'
import { appendTarEnd } from '../kernel/tar-writer.ts'
import { type FileChange, type SandboxSpec, SandboxUnavailable, type StoppedSandbox } from '../sandbox.ts'
import { ignoring, TRANSFER_TIMEOUT_MS } from './client.ts'
import { type Container, statIn } from './container.ts'
import type { DockerEngine } from './engine.ts'
import { type ContainerLayers, readLayers } from './layers.ts'

/** Private part of a `StoppedSandbox`, from which a later sandbox can start. */
export type StoppedContainer = {
  containerId: string
  imageDigest: string
  layers: ContainerLayers | undefined
  /** Disk limit, which also applies to a copy of its files. */
  diskMb: number
  /** Changes of the snapshot that it was started from. Needed only if `layers` is undefined. */
  inherited: readonly FileChange[]
  /** Replaces account files that are unsafe for the engine to open. Must be called before the engine reads files. */
  repairAccounts: () => Promise<void>
}

const stoppedContainers = new WeakMap<StoppedSandbox, StoppedContainer>()

export function createStoppedSandbox(
  engine: DockerEngine,
  spec: SandboxSpec,
  { id, layers }: Container,
  { inherited, repairAccounts }: Pick<StoppedContainer, 'inherited' | 'repairAccounts'>,
): StoppedSandbox {
  const { image, limits } = spec
  const container: StoppedContainer = {
    containerId: id,
    imageDigest: image.digest,
    layers,
    diskMb: limits.diskMb,
    inherited,
    repairAccounts,
  }
  const stopped: StoppedSandbox = {
    sandboxId: spec.id,
    async collect(path, caps) {
      const found = await collectFrom(engine, container, path, { caps, prefix: '' })
      return found && { tar: Readable.from(appendTarEnd(found.tar), { objectMode: false }), leftOut: found.leftOut }
    },
    changes: () => listContainerChanges(engine, container),
  }
  stoppedContainers.set(stopped, container)
  return stopped
}

export function stoppedContainerOf(stopped: StoppedSandbox): StoppedContainer {
  const container = stoppedContainers.get(stopped)
  if (container === undefined) throw new Error(`Sandbox ${stopped.sandboxId} belongs to another provider.`)
  return container
}

/** Lists the changes that a container started from a snapshot of this one inherits. Called before this one is removed. */
export async function listInheritedChanges(engine: DockerEngine, container: StoppedContainer): Promise<FileChange[]> {
  return container.layers ? [] : [...container.inherited, ...(await readEngineChanges(engine, container.containerId))]
}

type CollectOptions = Omit<TarFilterOptions, 'folder'>

/** Collects a path. Returns undefined if it does not exist or is behind a link. */
export async function collectFrom(
  engine: DockerEngine,
  container: StoppedContainer,
  path: string,
  options: CollectOptions,
): Promise<FilteredTar | undefined> {
  const { layers } = container
  const parts = toPathParts(path)
  const filter = (tar: Readable): Promise<FilteredTar> => filterTar(tar, { ...options, folder: engine.folder })
  if (layers === undefined || parts.length === 0) return collectThroughEngine(engine, container, parts, filter)
  const result = await readLayers(engine, layers, parts, filter)
  // The filtered archive is an open file even if nothing was read.
  if (result.kind !== 'read') result.value.tar.destroy()
  if (result.kind === 'failed') return collectThroughEngine(engine, container, parts, filter)
  if (result.kind === 'not_found') return undefined
  const top = await findInside(layers.upper, parts.join('/'))
  if (top) result.value.leftOut.push(...(await listSockets(top, parts.at(-1) ?? '.', options.caps.files)))
  return result.value
}

type TarReader = (tar: Readable) => Promise<FilteredTar>

/** Reads files through the engine. Throws SandboxUnavailable if the engine has removed the container. */
async function collectThroughEngine(
  engine: DockerEngine,
  container: StoppedContainer,
  parts: string[],
  use: TarReader,
): Promise<FilteredTar | undefined> {
  const found = await readThroughEngine(engine, container, parts, use)
  if (found) return found
  const known = await engine.docker.call('GET', `/containers/${container.containerId}/json`).catch(ignoring(404))
  if (known === undefined) throw new SandboxUnavailable('The Docker engine lost the files of a sandbox.')
  return undefined
}

/** Reads files through the engine, which looks up their owners in the account files. The account files are therefore repaired first. */
async function readThroughEngine(
  { docker }: DockerEngine,
  { containerId: id, repairAccounts }: StoppedContainer,
  parts: string[],
  use: TarReader,
): Promise<FilteredTar | undefined> {
  await repairAccounts()
  for (let length = 1; length < parts.length; length += 1) {
    const above = await statIn(docker, id, `/${parts.slice(0, length).join('/')}`)
    if (above?.isFolder !== true) return undefined
  }
  const query = { path: posix.join('/', ...parts) }
  const options = { query, timeoutMs: TRANSFER_TIMEOUT_MS }
  const answer = await docker.open('GET', `/containers/${id}/archive`, options).catch(ignoring(404))
  if (answer === undefined) return undefined
  const tar = new PassThrough()
  pipeline(answer, tar).catch(() => {}) // reported to the reader of the archive
  try {
    return await use(tar)
  } finally {
    answer.destroy()
  }
}

/** Lists the sockets below a path, which tar leaves out without a message. Reads at most `entriesMax` entries. */
async function listSockets(top: HostPath, name: string, entriesMax: number): Promise<string[]> {
  if (top.stats.isSocket()) return [name]
  if (!top.stats.isDirectory()) return []
  const sockets: string[] = []
  let entries = 0
  for await (const { entry, path } of walkFolders(top.path, name)) {
    entries += 1
    if (entries > entriesMax || sockets.length >= SOCKETS_MAX) break
    if (entry.isSocket()) sockets.push(path)
  }
  return sockets
}

/** Yields the entries of a folder and of those below it, as deep as is collected. `name` is prefixed to their paths. */
async function* walkFolders(top: string, name: string): AsyncGenerator<{ entry: Dirent; path: string }> {
  const folders = ['']
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const entries = await opendir(`${top}${folder}`).catch(ignoreUnreadableName)
    for await (const entry of entries ?? []) {
      const below = `${folder}/${entry.name}`
      yield { entry, path: `${name}${below}` }
      if (entry.isDirectory() && !isTooDeep(`${name}${below}`)) folders.push(below)
    }
  }
}

const SOCKETS_MAX = 1000

/** Ignores the errors for names that are not UTF-8 and for paths that are too long, which cannot be opened. */
const ignoreUnreadableName = ignoreCode('ENOENT', 'ENAMETOOLONG')

type ImageDetails = { RootFS: { Layers?: string[] } }

/** Lists the changes to the image of the task, including those of the snapshot that the container started from. */
async function* listContainerChanges(engine: DockerEngine, container: StoppedContainer): AsyncGenerator<FileChange> {
  if (container.layers === undefined) {
    yield* container.inherited
    yield* await readEngineChanges(engine, container.containerId)
    return
  }
  const { RootFS } = await engine.docker.call<ImageDetails>('GET', `/images/${container.imageDigest}/json`)
  const lower = container.layers.lower.split(':')
  const snapshotCount = lower.length - (RootFS.Layers?.length ?? 0)
  // The engine adds a layer to each container, with the mount points of its own files.
  const snapshotLayers = lower.slice(0, snapshotCount).filter((folder) => !folder.includes('-init/'))
  yield* listChanges({ changed: [container.layers.upper, ...snapshotLayers], image: lower.slice(snapshotCount) })
}

/** Maximum size of the list of changes, which the engine returns as one JSON document. */
const CHANGES_MAX_BYTES = 64e6

/** `Kind`: 0 for a modified path, 1 for an added one, 2 for a deleted one. */
type EngineChange = { Path: string; Kind: 0 | 1 | 2 }

/** Stands for the bytes of a name that are not UTF-8. */
const REPLACEMENT_CHARACTER = '\uFFFD'

/** Maximum number of paths for which the engine is asked whether they are folders. */
const STATS_MAX = 1000

/**
 * Asks the engine what a container changed in the image that it was started from. The engine does not distinguish files
 * from folders: an added path counts as a folder when another change lies below it.
 */
async function readEngineChanges({ docker }: DockerEngine, containerId: string): Promise<FileChange[]> {
  const answer = await docker.open('GET', `/containers/${containerId}/changes`)
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer) {
    bytes += chunk.length
    if (bytes > CHANGES_MAX_BYTES) throw new SandboxUnavailable('The sandbox changed too many files to list them.')
    chunks.push(chunk)
  }
  const parsed = parseUntrustedJson(Buffer.concat(chunks).toString('utf8') || 'null', { valuesMax: CHANGES_MAX_BYTES })
  const changes = (parsed ?? []) as EngineChange[]
  if (parsed === undefined || !Array.isArray(changes))
    throw new SandboxUnavailable('The Docker engine sent an invalid list of changes.')
  const folders = new Set(changes.map(({ Path }) => Path.slice(0, Path.lastIndexOf('/'))))
  const modified = changes.filter(({ Path, Kind }) => Kind === 0 && !folders.has(Path))
  for (const { Path } of modified.slice(0, STATS_MAX)) {
    const found = await statIn(docker, containerId, Path).catch(ignoring(500))
    if (found?.isFolder) folders.add(Path)
  }
  return changes.flatMap(({ Path: path, Kind }): FileChange[] => {
    const isFolder = folders.has(path)
    // Only the owner, the mode or the contents of the folder differ.
    if (Kind === 0 && isFolder) return []
    const presentKind = isFolder ? 'folder' : 'file'
    const kind = Kind === 2 ? 'deleted' : presentKind
    return [{ path, kind, ...(path.includes(REPLACEMENT_CHARACTER) ? { isUnreadable: true } : {}) }]
  })
}
