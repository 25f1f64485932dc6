import { createHash } from 'node:crypto'
import { posix } from 'node:path'
import { Readable } from 'node:stream'
import { discardContent } from '../../harbor/archive.ts'
import { readTarEntries, type TarEntry } from '../../harbor/tar-reader.ts'
import { shareSuccessByKey } from '../../platform/concurrency.ts'
import { LABEL } from '../kernel/ownership.ts'
import { isAtOrBelow, listWorkspaceRoots, toParentPrefix, toPathParts } from '../kernel/sandbox-path.ts'
import { tarEnd, tarHeader, tarPadding } from '../kernel/tar-writer.ts'
import {
  type BaseFilesystem,
  type FileChange,
  MEGABYTE,
  type SandboxSpec,
  SandboxUnavailable,
  SandboxUnsupported,
} from '../sandbox.ts'
import { listUnsafeFiles, putAccounts } from './account.ts'
import { EngineRefusal, ignoring, TRANSFER_TIMEOUT_MS } from './client.ts'
import { commitImage, ENGINE_FILES, statIn, withDraft } from './container.ts'
import { type DockerEngine, labelsOf, logStep } from './engine.ts'
import { collectFrom, listInheritedChanges, type StoppedContainer, stoppedContainerOf } from './stopped-sandbox.ts'

/** The image that a container is created from, and the files that are then added. */
export type ContainerBase = {
  image: string
  /** Archives of the files. */
  workspace: Readable[]
  /** True if the workspace lies directly below the root, so that no folder of the image is changed. */
  isTopLevel: boolean
  /** True if the workspace has files in /etc, where the engine opens some when the container starts. */
  changesEtc: boolean
  /** Changes that the image already contains, if its layers cannot be read. */
  inherited: readonly FileChange[]
  /** Removes the images that were created for the container. */
  release(): Promise<void>
}

/** Limits for files that are collected from a sandbox. */
const COLLECT_CAPS = { files: 200_000, bytes: 4 * 1024 ** 3 }

/** Prepares the files that a sandbox starts with. */
export async function planBaseFilesystem(
  engine: DockerEngine,
  { id, baseFilesystem, image }: SandboxSpec,
): Promise<ContainerBase> {
  const noRelease = async (): Promise<void> => {}
  switch (baseFilesystem.kind) {
    case 'image':
      return {
        image: image.digest,
        workspace: [],
        isTopLevel: true,
        changesEtc: false,
        inherited: [],
        release: noRelease,
      }
    case 'workspace':
      return { ...(await buildWorkspaceBase(engine, baseFilesystem, image.digest)), inherited: [], release: noRelease }
    case 'snapshot': {
      const stopped = stoppedContainerOf(baseFilesystem.from)
      if (stopped.imageDigest !== image.digest) {
        throw new SandboxUnsupported('A snapshot can only be continued on the image that it was taken from.')
      }
      const inherited = await listInheritedChanges(engine, stopped)
      const snapshot = await takeSnapshot(engine, stopped, baseFilesystem.without)
      logStep(engine, id, 'snapshot')
      return { ...snapshot, workspace: [], isTopLevel: true, changesEtc: false, inherited }
    }
  }
}

/** Creates the base of a workspace on an image that has nothing at its paths, so that deleted files stay deleted. */
async function buildWorkspaceBase(
  engine: DockerEngine,
  { from, paths, without = [] }: Extract<BaseFilesystem, { kind: 'workspace' }>,
  digest: string,
): Promise<Omit<ContainerBase, 'release' | 'inherited'>> {
  const roots = listWorkspaceRoots(paths)
  const image = await prepareWithoutPaths(engine, digest, roots)
  const workspace: Readable[] = []
  for (const path of roots) {
    const found = await collectFrom(engine, stoppedContainerOf(from), path, {
      caps: COLLECT_CAPS,
      prefix: toParentPrefix(path),
      isDropped: (inside) => isAtOrBelow(`/${inside}`, [...without, ...ENGINE_FILES]),
    })
    if (found) workspace.push(found.tar)
  }
  const isTopLevel = roots.every((path) => toPathParts(path).length === 1)
  return { image, workspace, isTopLevel, changesEtc: roots.some((path) => isAtOrBelow(path, ['/etc'])) }
}

/**
 * Script that removes paths. Files that the engine mounts cannot be removed. The script fails if anything is left besides
 * them and the folders above them.
 */
const REMOVE_SCRIPT = `rm -rf -- "$@" && exit
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

/**
 * Returns the command that runs a script which removes paths. It uses the launcher's programs, because an agent may have
 * replaced those of the container.
 */
function buildRemovalCommand({ launcher }: DockerEngine, script: string, paths: string[]): string[] {
  if (launcher === undefined) return ['sh', '-c', script, 'remove', ...paths]
  const remove = launcher.toCommand('rm').join(' ')
  return launcher.toCommand('sh', '-c', `rm() { ${remove} "$@"; }\n${script}`, 'remove', ...paths)
}

/** Returns an image that has nothing at the paths. It is created once per base image and paths. */
function prepareWithoutPaths(engine: DockerEngine, digest: string, paths: string[]): Promise<string> {
  const key = createHash('sha256')
    .update(JSON.stringify([digest, paths]))
    .digest('hex')
  return shareSuccessByKey(engine.images, key, () => findOrCreateImage(engine, digest, paths, key))
}

async function findOrCreateImage(engine: DockerEngine, digest: string, paths: string[], key: string): Promise<string> {
  const name = { repo: 'assay/without', tag: key.slice(0, 32) }
  const path = `/images/${name.repo}:${name.tag}/json`
  const found = await engine.docker.call<{ Id: string }>('GET', path).catch(ignoring(404))
  if (found) return found.Id
  const removable = await listOutsideVolumes(engine, digest, paths)
  if (removable.length === 0) return digest
  const command = buildRemovalCommand(engine, REMOVE_SCRIPT, removable)
  return withDraft(engine, { image: digest, command }, (id) => commitImage(engine, id, name, {})).catch(
    (error: unknown) => {
      throw new SandboxUnavailable(`The image ${digest} could not be prepared for a workspace: ${String(error)}`)
    },
  )
}

type ImageVolumes = { Config: { Volumes?: Record<string, unknown> | null } }

/** Returns the paths outside of volumes. The engine fills a volume that the image declares for each container. */
async function listOutsideVolumes({ docker }: DockerEngine, digest: string, paths: string[]): Promise<string[]> {
  const { Config } = await docker.call<ImageVolumes>('GET', `/images/${digest}/json`)
  const volumes = Object.keys(Config.Volumes ?? {}).map((path) => posix.resolve('/', path))
  const overlaps = (path: string, other: string): boolean => isAtOrBelow(path, [other]) || isAtOrBelow(other, [path])
  return paths.filter((path) => !volumes.some((volume) => overlaps(path, volume)))
}

/** Time after which other processes remove the image of a snapshot, even if its owner may be alive. */
const SNAPSHOT_LIFETIME_MS = 24 * 3_600_000
/** Maximum number of links that are followed along a path, as links may form a circle. */
const LINKS_MAX = 20

/** Script that removes the paths, and any file at the place of one of their parent folders. */
const CLEAN_SCRIPT = `set -f
for path; do
  at=
  rest=\${path#/}
  while :; do
    at="$at/\${rest%%/*}"
    case "$rest" in */*) rest=\${rest#*/} ;; *) break ;; esac
    if [ -L "$at" ] || { [ -e "$at" ] && [ ! -d "$at" ]; }; then rm -rf -- "$at"; fi
  done
  rm -rf -- "$path" || :
done`

/** Creates an image from a stopped sandbox, with the given paths restored from the sandbox's image. */
async function takeSnapshot(
  engine: DockerEngine,
  stopped: StoppedContainer,
  without: string[],
): Promise<{ image: string; release(): Promise<void> }> {
  const images: string[] = []
  const labels = labelsOf(engine, 'snapshot', { [LABEL.deadline]: String(Date.now() + SNAPSHOT_LIFETIME_MS) })
  const release = async (): Promise<void> => {
    for (const image of images.splice(0).reverse()) await removeImage(engine, image)
  }
  try {
    await requireWithinDisk(engine, stopped)
    const whole = await commitImage(engine, stopped.containerId, undefined, labels)
    images.push(whole)
    const unsafe = await listUnsafeFiles(engine, stopped)
    const paths = [...without, ...unsafe]
    if (paths.length === 0) return { image: whole, release }
    const hasUnsafeFiles = unsafe.length > 0
    const restored = await restorePaths(engine, { from: whole, stopped, without: paths, labels, hasUnsafeFiles })
    images.push(restored)
    return { image: restored, release }
  } catch (error) {
    await release()
    throw error
  }
}

/** Checks the apparent size of a stopped sandbox's files against its disk limit, because the engine expands sparse files. */
async function requireWithinDisk({ docker }: DockerEngine, { containerId, diskMb }: StoppedContainer): Promise<void> {
  const options = { query: { size: true }, timeoutMs: TRANSFER_TIMEOUT_MS }
  const { SizeRw = 0 } = await docker.call<{ SizeRw?: number }>('GET', `/containers/${containerId}/json`, options)
  if (SizeRw <= diskMb * MEGABYTE) return
  throw new SandboxUnavailable(
    `The files of the stopped sandbox are too large to copy: ${Math.ceil(SizeRw / MEGABYTE)} MiB; the limit is ${diskMb} MiB.`,
  )
}

/** Removes an image. Does nothing if it no longer exists, has images based on it, or is being removed by another request. */
async function removeImage({ docker }: DockerEngine, image: string): Promise<void> {
  const isExpected = (error: unknown): boolean =>
    error instanceof EngineRefusal &&
    (error.status === 404 || error.status === 409 || /unrecognized image/.test(error.message))
  await docker.call('DELETE', `/images/${image}`, { query: { force: true } }).catch((error: unknown) => {
    if (!isExpected(error)) throw error
  })
}

type RestoreRequest = {
  /** Image with all files of the stopped sandbox. */
  from: string
  stopped: StoppedContainer
  without: string[]
  labels: Record<string, string>
  /** True if the account files must be replaced by those of the image before the container starts. */
  hasUnsafeFiles: boolean
}

async function restorePaths(
  engine: DockerEngine,
  { from, stopped, without, labels, hasUnsafeFiles }: RestoreRequest,
): Promise<string> {
  return withDraft(engine, { image: stopped.imageDigest, command: null }, async (imageContainer) => {
    const paths = await resolveLinks(engine, imageContainer, without)
    const fill = hasUnsafeFiles ? (id: string) => putAccounts(engine, id, stopped.imageDigest) : undefined
    const command = buildRemovalCommand(engine, CLEAN_SCRIPT, paths)
    return withDraft(engine, { image: from, command, fill }, async (draft) => {
      const body = Readable.from(packOriginals(engine, imageContainer, paths), { objectMode: false })
      await engine.docker.call('PUT', `/containers/${draft}/archive`, {
        query: { path: '/' },
        body,
        timeoutMs: TRANSFER_TIMEOUT_MS,
      })
      return commitImage(engine, draft, undefined, labels)
    })
  })
}

/**
 * Resolves paths through the links of the image. Links along a path are protected too, because changing a link changes
 * its target.
 */
async function resolveLinks({ docker }: DockerEngine, container: string, paths: string[]): Promise<string[]> {
  const resolved = new Set<string>()
  for (const path of paths) {
    let parts = toPathParts(path)
    for (let length = 1, links = 0; length < parts.length && links < LINKS_MAX; length += 1) {
      const above = `/${parts.slice(0, length).join('/')}`
      const stats = await statIn(docker, container, above)
      if (!stats?.isLink) continue
      resolved.add(above)
      parts = toPathParts(posix.join(posix.resolve(posix.dirname(above), stats.link), ...parts.slice(length)))
      length = 0
      links += 1
    }
    resolved.add(`/${parts.join('/')}`)
  }
  return [...resolved].sort()
}

/** Packs the paths from the image into one archive. */
async function* packOriginals({ docker }: DockerEngine, container: string, paths: string[]): AsyncGenerator<Buffer> {
  for (const path of paths) {
    const options = { query: { path }, timeoutMs: TRANSFER_TIMEOUT_MS }
    const answer = await docker.open('GET', `/containers/${container}/archive`, options).catch(ignoring(404))
    const above = posix.dirname(path).slice(1)
    if (answer) for await (const entry of readTarEntries(answer)) yield* repackEntry(entry, above)
  }
  yield tarEnd()
}

async function* repackEntry(entry: TarEntry, above: string): AsyncGenerator<Buffer> {
  const { mode, uid, gid, mtime, bytes, linkTarget, type } = entry
  const path = posix.join(above, entry.path)
  if (ENGINE_FILES.includes(`/${path}`)) return discardContent(entry)
  const header = { path, mode, uid, gid, mtime, size: 0 }
  if (type === 'Directory') yield tarHeader({ ...header, type })
  if (type === 'SymbolicLink') yield tarHeader({ ...header, type, link: linkTarget })
  if (type === 'Link') yield tarHeader({ ...header, type, link: posix.join(above, linkTarget) })
  if (type !== 'File' && type !== 'OldFile') return
  yield tarHeader({ ...header, type: 'File', size: bytes })
  yield* entry.content()
  yield tarPadding(bytes)
}
