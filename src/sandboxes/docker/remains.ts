import { readdir } from 'node:fs/promises'
import { posix } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { findInside, partsOf } from '../kernel/inside.ts'
import type { FileChange, Remains, SandboxSpec } from '../sandbox.ts'
import { askChanges, changesOf } from './changes.ts'
import { type Docker, ignoring, TRANSFER_MS } from './client.ts'
import type { Engine } from './engine.ts'
import { type Layers, readLayers } from './layers.ts'
import type { Container } from './running.ts'
import { type Spooled, sieveTar } from './sieve.ts'
import { tarEnd } from './tar-writer.ts'

/** The inside of `Remains`: what a later sandbox is seeded from. */
export type Left = {
  containerId: string
  imageDigest: string
  layers: Layers | undefined
  /** Limit of its disk, which a copy of its files must not exceed either. */
  diskMb: number
  /** Changes of the snapshot that it was started from, where `layers` cannot be read. */
  inherited: readonly FileChange[]
}

const insides = new WeakMap<Remains, Left>()

export function makeRemains(
  engine: Engine,
  spec: SandboxSpec,
  { id, layers }: Container,
  inherited: readonly FileChange[],
): Remains {
  const { image, limits } = spec
  const left: Left = { containerId: id, imageDigest: image.digest, layers, diskMb: limits.diskMb, inherited }
  const remains: Remains = {
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

export function leftOf(remains: Remains): Left {
  const left = insides.get(remains)
  if (left === undefined) throw new Error(`What sandbox ${remains.sandboxId} left is not of this provider.`)
  return left
}

/** Changes that a container started from a snapshot of this one inherits. Read before this container is removed. */
export async function inheritedChanges(engine: Engine, left: Left): Promise<FileChange[]> {
  return left.layers ? [] : [...left.inherited, ...(await askChanges(engine, left.containerId))]
}

async function* ended(tar: Readable): AsyncGenerator<Buffer> {
  yield* tar
  yield tarEnd()
}

type Wish = { caps: { files: number; bytes: number }; prefix: string }

/** Undefined when there is nothing at that path, or only behind a link. */
export async function collectFrom(
  engine: Engine,
  { containerId, layers }: Left,
  path: string,
  { caps, prefix }: Wish,
): Promise<Spooled | undefined> {
  const parts = partsOf(path)
  const sieve = (tar: Readable): Promise<Spooled> => sieveTar(tar, { folder: engine.folder, caps, prefix })
  if (layers === undefined || parts.length === 0) return askEngine(engine, containerId, parts, sieve)
  const reading = await readLayers(engine, layers, parts, sieve)
  // What came before it was known that there is nothing is a file of ours all the same.
  if (reading.kind !== 'read') reading.value.tar.destroy()
  if (reading.kind === 'unable') return askEngine(engine, containerId, parts, sieve)
  if (reading.kind === 'nothing') return undefined
  reading.value.leftOut.push(...(await listSockets(layers.upper, parts.join('/'), parts.at(-1) ?? '.')))
  return reading.value
}

type Use = (tar: Readable) => Promise<Spooled>

async function askEngine({ docker }: Engine, id: string, parts: string[], use: Use): Promise<Spooled | undefined> {
  for (let length = 1; length < parts.length; length += 1) {
    const above = await statIn(docker, id, `/${parts.slice(0, length).join('/')}`)
    if (above?.isFolder !== true) return undefined
  }
  const query = { path: posix.join('/', ...parts) }
  const ask = { query, timeoutMs: TRANSFER_MS }
  const answer = await docker.open('GET', `/containers/${id}/archive`, ask).catch(ignoring(404))
  if (answer === undefined) return undefined
  const tar = new PassThrough()
  pipeline(answer, tar).catch(() => {}) // whoever reads the archive gets the error
  try {
    return await use(tar)
  } finally {
    answer.destroy()
  }
}

/** The engine leaves them out itself, and says nothing. */
async function listSockets(root: string, path: string, name: string): Promise<string[]> {
  const place = await findInside(root, path)
  if (place?.stats.isSocket()) return [name]
  if (!place?.stats.isDirectory()) return []
  const entries = await readdir(place.path, { recursive: true, withFileTypes: true })
  const sockets = entries.filter((entry) => entry.isSocket())
  return sockets
    .map((entry) => posix.join(name, posix.relative(place.path, entry.parentPath), entry.name))
    .slice(0, SOCKETS_MAX)
}

export type Place = { isFolder: boolean; isLink: boolean; isFile: boolean; bytes: number; link: string }

const SOCKETS_MAX = 1000
/** Of Go's file modes. */
const GO_FOLDER = 2 ** 31
const GO_LINK = 2 ** 27
/** Folder, link, device, pipe, socket, character device and irregular. */
const GO_TYPES = [31, 27, 26, 25, 24, 21, 19].map((bit) => 2 ** bit)

/** What the engine says is at a path of a container: the last part of it is not followed, those before are. */
export async function statIn(docker: Docker, containerId: string, path: string): Promise<Place | undefined> {
  const answer = await docker
    .open('HEAD', `/containers/${containerId}/archive`, { query: { path } })
    .catch(ignoring(404, 400))
  answer?.resume()
  const header = answer?.headers['x-docker-container-path-stat']
  if (typeof header !== 'string') return undefined
  const { mode, size, linkTarget } = JSON.parse(Buffer.from(header, 'base64').toString())
  return {
    isFolder: Math.floor(mode / GO_FOLDER) % 2 === 1,
    isLink: Math.floor(mode / GO_LINK) % 2 === 1,
    isFile: GO_TYPES.every((type) => Math.floor(mode / type) % 2 === 0),
    bytes: Number(size),
    link: String(linkTarget ?? ''),
  }
}
