import type { Dirent } from 'node:fs'
import { opendir } from 'node:fs/promises'
import { posix } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { parseUntrustedJson } from '../../platform/untrusted-json.ts'
import { listChanges } from '../kernel/changes.ts'
import { isTooDeep } from '../kernel/collect.ts'
import { type FilteredTar, filterTar, type TarFilterOptions } from '../kernel/filter-tar.ts'
import { findInside, type HostPath, toPathParts } from '../kernel/inside.ts'
import { tarEnd } from '../kernel/tar-writer.ts'
import { type FileChange, type SandboxSpec, SandboxUnavailable, type StoppedSandbox } from '../sandbox.ts'
import { ignoring, TRANSFER_MS } from './client.ts'
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
  /** Changes of the snapshot that it was started from, where `layers` cannot be read. */
  inherited: readonly FileChange[]
}

const insides = new WeakMap<StoppedSandbox, StoppedContainer>()

export function createStoppedSandbox(
  engine: DockerEngine,
  spec: SandboxSpec,
  { id, layers }: Container,
  inherited: readonly FileChange[],
): StoppedSandbox {
  const { image, limits } = spec
  const left: StoppedContainer = {
    containerId: id,
    imageDigest: image.digest,
    layers,
    diskMb: limits.diskMb,
    inherited,
  }
  const remains: StoppedSandbox = {
    sandboxId: spec.id,
    async collect(path, caps) {
      const found = await collectFrom(engine, left, path, { caps, prefix: '' })
      return found && { tar: Readable.from(ended(found.tar), { objectMode: false }), leftOut: found.leftOut }
    },
    changes: () => changesOf(engine, left),
  }
  insides.set(remains, left)
  return remains
}

export function stoppedContainerOf(remains: StoppedSandbox): StoppedContainer {
  const left = insides.get(remains)
  if (left === undefined) throw new Error(`Sandbox ${remains.sandboxId} belongs to another provider.`)
  return left
}

/** Changes that a container started from a snapshot of this one inherits. Read before this container is removed. */
export async function inheritedChanges(engine: DockerEngine, left: StoppedContainer): Promise<FileChange[]> {
  return left.layers ? [] : [...left.inherited, ...(await readEngineChanges(engine, left.containerId))]
}

async function* ended(tar: Readable): AsyncGenerator<Buffer> {
  yield* tar
  yield tarEnd()
}

type CollectOptions = Omit<TarFilterOptions, 'folder'>

/** Collects a path. Returns undefined if it does not exist or is behind a link. */
export async function collectFrom(
  engine: DockerEngine,
  { containerId, layers }: StoppedContainer,
  path: string,
  options: CollectOptions,
): Promise<FilteredTar | undefined> {
  const parts = toPathParts(path)
  const filter = (tar: Readable): Promise<FilteredTar> => filterTar(tar, { ...options, folder: engine.folder })
  if (layers === undefined || parts.length === 0) return askEngine(engine, containerId, parts, filter)
  const reading = await readLayers(engine, layers, parts, filter)
  // The filtered archive is an open file even when there was nothing to read.
  if (reading.kind !== 'read') reading.value.tar.destroy()
  if (reading.kind === 'unable') return askEngine(engine, containerId, parts, filter)
  if (reading.kind === 'nothing') return undefined
  const top = await findInside(layers.upper, parts.join('/'))
  if (top) reading.value.leftOut.push(...(await listSockets(top, parts.at(-1) ?? '.', options.caps.files)))
  return reading.value
}

type Use = (tar: Readable) => Promise<FilteredTar>

async function askEngine(
  { docker }: DockerEngine,
  id: string,
  parts: string[],
  use: Use,
): Promise<FilteredTar | undefined> {
  for (let length = 1; length < parts.length; length += 1) {
    const above = await statIn(docker, id, `/${parts.slice(0, length).join('/')}`)
    if (above?.isFolder !== true) return undefined
  }
  const query = { path: posix.join('/', ...parts) }
  const ask = { query, timeoutMs: TRANSFER_MS }
  const answer = await docker.open('GET', `/containers/${id}/archive`, ask).catch(ignoring(404))
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
function ignoreUnreadableName(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT' && error.code !== 'ENAMETOOLONG') throw error
}

/** A dead container whose changes are listed. */
type ChangedContainer = {
  containerId: string
  imageDigest: string
  layers: ContainerLayers | undefined
  /** Changes of the snapshot that it was started from, where `layers` cannot be read. */
  inherited: readonly FileChange[]
}

type ImageDetails = { RootFS: { Layers?: string[] } }

/** Lists what a dead container changed in its task's image, also when it was started from a snapshot of another one. */
async function* changesOf(engine: DockerEngine, left: ChangedContainer): AsyncGenerator<FileChange> {
  if (left.layers === undefined) {
    yield* left.inherited
    yield* await readEngineChanges(engine, left.containerId)
    return
  }
  const { RootFS } = await engine.docker.call<ImageDetails>('GET', `/images/${left.imageDigest}/json`)
  const lower = left.layers.lower.split(':')
  const above = lower.length - (RootFS.Layers?.length ?? 0)
  const changed = lower.slice(0, above).filter((folder) => !folder.includes('-init/'))
  yield* listChanges({ changed: [left.layers.upper, ...changed], image: lower.slice(above) })
}

/** A container with more changes than this is not listed: the engine returns them all in one JSON document. */
const CHANGES_MAX_BYTES = 64e6

type EngineChange = { Path: string; Kind: 0 | 1 | 2 }

/** Paths of which the engine is asked whether they are folders. */
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
    // Only the owner or the mode of the folder differs, or what lies in it.
    if (Kind === 0 && isFolder) return []
    const kind = Kind === 2 ? 'deleted' : isFolder ? 'folder' : 'file'
    return [{ path, kind, ...(path.includes('\uFFFD') ? { isUnreadable: true } : {}) }]
  })
}
