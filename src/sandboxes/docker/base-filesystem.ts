import { createHash } from 'node:crypto'
import { posix } from 'node:path'
import type { Readable } from 'node:stream'
import { partsOf } from '../kernel/inside.ts'
import {
  type BaseFilesystem,
  type FileChange,
  type SandboxSpec,
  SandboxUnavailable,
  SandboxUnsupported,
} from '../sandbox.ts'
import { ignoring } from './client.ts'
import { ENGINE_FILES } from './container.ts'
import { commit, withDraft } from './draft.ts'
import { type DockerEngine, logStep } from './engine.ts'
import { takeSnapshot } from './snapshot.ts'
import { collectFrom, inheritedChanges, stoppedContainerOf } from './stopped-sandbox.ts'

/** The image that a container is created from, and the files that are then added. */
export type ContainerBase = {
  image: string
  workspace: Readable[]
  /** All of it lies directly below the root, so that no folder of the image is touched. */
  isOnTop: boolean
  /** The workspace has files in /etc, where the engine opens some when the container starts. */
  changesEtc: boolean
  /** Changes that the image has already, where they cannot be told from its layers. */
  inherited: readonly FileChange[]
  release(): Promise<void>
}

/** Maximum of what is collected from a sandbox. */
const CAPS = { files: 200_000, bytes: 4 * 1024 ** 3 }

export async function planBaseFilesystem(
  engine: DockerEngine,
  { id, baseFilesystem, image }: SandboxSpec,
): Promise<ContainerBase> {
  const release = async (): Promise<void> => {}
  switch (baseFilesystem.kind) {
    case 'image':
      return { image: image.digest, workspace: [], isOnTop: true, changesEtc: false, inherited: [], release }
    case 'workspace':
      return { ...(await workspaceOf(engine, baseFilesystem, image.digest)), inherited: [], release }
    case 'snapshot': {
      const left = stoppedContainerOf(baseFilesystem.from)
      if (left.imageDigest !== image.digest) {
        throw new SandboxUnsupported('A snapshot can only be continued on the image that it was taken from.')
      }
      const inherited = await inheritedChanges(engine, left)
      const snapshot = await takeSnapshot(engine, left, baseFilesystem.without)
      logStep(engine, id, 'snapshot')
      return { ...snapshot, workspace: [], isOnTop: true, changesEtc: false, inherited }
    }
  }
}

/** Creates the base of a workspace on an image that has nothing at its paths, so that deleted files stay deleted. */
async function workspaceOf(
  engine: DockerEngine,
  { from, paths }: Extract<BaseFilesystem, { kind: 'workspace' }>,
  digest: string,
): Promise<Omit<ContainerBase, 'release' | 'inherited'>> {
  const places = [...new Set(paths.map((path) => posix.join('/', ...partsOf(path))))].sort()
  const whole = places.filter((path) => !places.some((other) => other !== path && isBelow(path, other)))
  if (whole.includes('/')) throw new SandboxUnsupported('The whole of a sandbox is no workspace: take a snapshot.')
  const image = await withoutPaths(engine, digest, whole)
  const workspace: Readable[] = []
  for (const path of whole) {
    const prefix = partsOf(path)
      .slice(0, -1)
      .map((part) => `${part}/`)
      .join('')
    const found = await collectFrom(engine, stoppedContainerOf(from), path, {
      caps: CAPS,
      prefix,
      isDropped: isEngineFile,
    })
    if (found) workspace.push(found.tar)
  }
  const isOnTop = whole.every((path) => partsOf(path).length === 1)
  return { image, workspace, isOnTop, changesEtc: whole.some((path) => path === '/etc' || isBelow(path, '/etc')) }
}

const isEngineFile = (path: string): boolean => ENGINE_FILES.includes(`/${path}`)

/**
 * Script that removes paths. Files that the engine mounts cannot be removed, and nothing but mounted files and the
 * folders above them may be left.
 */
const REMOVE = `rm -rf -- "$@" && exit
mounted=' '
while read -r _ _ _ _ at _; do mounted="$mounted$at "; done < /proc/self/mountinfo
check() {
  for found in "$1" "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if [ ! -e "$found" ] && [ ! -L "$found" ]; then continue; fi
    case "$mounted" in *" $found "*) continue ;; esac
    if [ -L "$found" ] || [ ! -d "$found" ]; then exit 1; fi
    if [ "$found" != "$1" ]; then check "$found"; fi
  done
}
for path; do check "$path"; done`

function removing({ launcher }: DockerEngine, paths: string[]): string[] {
  if (launcher === undefined) return ['sh', '-c', REMOVE, 'remove', ...paths]
  return launcher.words('sh', '-c', `rm() { ${launcher.words('rm').join(' ')} "$@"; }\n${REMOVE}`, 'remove', ...paths)
}

const isBelow = (path: string, folder: string): boolean => path.startsWith(folder === '/' ? '/' : `${folder}/`)

/** Made once for an image and its paths, and kept. */
function withoutPaths(engine: DockerEngine, digest: string, paths: string[]): Promise<string> {
  const key = createHash('sha256')
    .update(JSON.stringify([digest, paths]))
    .digest('hex')
  const known = engine.images.get(key)
  if (known) return known
  const made = findOrMake(engine, digest, paths, key)
  engine.images.set(key, made)
  made.catch(() => engine.images.delete(key))
  return made
}

async function findOrMake(engine: DockerEngine, digest: string, paths: string[], key: string): Promise<string> {
  const name = { repo: 'assay/without', tag: key.slice(0, 32) }
  const path = `/images/${name.repo}:${name.tag}/json`
  const found = await engine.docker.call<{ Id: string }>('GET', path).catch(ignoring(404))
  if (found) return found.Id
  const removable = await outsideVolumes(engine, digest, paths)
  if (removable.length === 0) return digest
  return withDraft(engine, { image: digest, command: removing(engine, removable) }, (id) =>
    commit(engine, id, name, {}),
  ).catch((error: unknown) => {
    throw new SandboxUnavailable(`The image ${digest} could not be prepared for a workspace: ${String(error)}`)
  })
}

type ImageVolumes = { Config: { Volumes?: Record<string, unknown> | null } }

/** Returns the paths outside of volumes. The engine fills a volume that the image declares for each container. */
async function outsideVolumes({ docker }: DockerEngine, digest: string, paths: string[]): Promise<string[]> {
  const { Config } = await docker.call<ImageVolumes>('GET', `/images/${digest}/json`)
  const volumes = Object.keys(Config.Volumes ?? {}).map((path) => posix.resolve('/', path))
  const touches = (path: string, other: string): boolean =>
    path === other || isBelow(path, other) || isBelow(other, path)
  return paths.filter((path) => !volumes.some((volume) => touches(path, volume)))
}
