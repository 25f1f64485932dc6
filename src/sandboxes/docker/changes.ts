import { listChanges } from '../kernel/changes.ts'
import { type FileChange, SandboxUnavailable } from '../sandbox.ts'
import { ignoring } from './client.ts'
import { statIn } from './container-files.ts'
import type { DockerEngine } from './engine.ts'
import type { ContainerLayers } from './layers.ts'

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
export async function* changesOf(engine: DockerEngine, left: ChangedContainer): AsyncGenerator<FileChange> {
  if (left.layers === undefined) {
    yield* left.inherited
    yield* await askChanges(engine, left.containerId)
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
 * Asks the engine what a container changed in the image that it was started from. The engine does not tell files from
 * folders: an added path counts as a folder when another change lies below it.
 */
export async function askChanges({ docker }: DockerEngine, containerId: string): Promise<FileChange[]> {
  const answer = await docker.open('GET', `/containers/${containerId}/changes`)
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer) {
    bytes += chunk.length
    if (bytes > CHANGES_MAX_BYTES) throw new SandboxUnavailable('The sandbox changed too many files to list them.')
    chunks.push(chunk)
  }
  const changes: EngineChange[] = JSON.parse(Buffer.concat(chunks).toString('utf8') || 'null') ?? []
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
