import { posix } from 'node:path'
import { Readable } from 'node:stream'
import { readTarEntries, type TarEntry } from '../../harbor/tar-reader.ts'
import { partsOf } from '../kernel/inside.ts'
import { tarEnd, tarHeader, tarPadding } from '../kernel/tar-writer.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { EngineRefusal, ignoring, TRANSFER_MS } from './client.ts'
import { ENGINE_FILES } from './container.ts'
import { statIn } from './container-files.ts'
import { commit, withDraft } from './draft.ts'
import { type DockerEngine, labelsOf } from './engine.ts'
import { LABEL } from './labels.ts'
import type { StoppedContainer } from './stopped-sandbox.ts'
import { listUnsafeFiles, putAccounts } from './unsafe-files.ts'

const KEEP_MS = 24 * 3_600_000
const LINKS_MAX = 20

/** Takes the paths away, and whatever stands where a folder above one should be. */
const CLEAN = `set -f
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

/** An image of what a sandbox left, with the given paths as they are in its image. */
export async function takeSnapshot(
  engine: DockerEngine,
  left: StoppedContainer,
  without: string[],
): Promise<{ image: string; release(): Promise<void> }> {
  const images: string[] = []
  const labels = labelsOf(engine, 'snapshot', { [LABEL.deadline]: String(Date.now() + KEEP_MS) })
  const release = async (): Promise<void> => {
    for (const image of images.splice(0).reverse()) await removeImage(engine, image)
  }
  try {
    await refuseHuge(engine, left)
    images.push(await commit(engine, left.containerId, undefined, labels))
    const unsafe = await listUnsafeFiles(engine, left)
    const restoring = [...without, ...unsafe]
    if (restoring.length > 0) {
      images.push(await restored(engine, { from: images[0] ?? '', left, without: restoring, labels, unsafe }))
    }
    return { image: images.at(-1) ?? '', release }
  } catch (error) {
    await release()
    throw error
  }
}

const MEGABYTE = 1024 * 1024

/** The engine writes the holes of sparse files out, so the apparent size of what a sandbox left must fit its disk. */
async function refuseHuge({ docker }: DockerEngine, { containerId, diskMb }: StoppedContainer): Promise<void> {
  const ask = { query: { size: true }, timeoutMs: TRANSFER_MS }
  const { SizeRw = 0 } = await docker.call<{ SizeRw?: number }>('GET', `/containers/${containerId}/json`, ask)
  if (SizeRw <= diskMb * MEGABYTE) return
  throw new SandboxUnavailable(
    `What the sandbox left cannot be carried over: it has ${Math.ceil(SizeRw / MEGABYTE)} MiB of files, and ${diskMb} are allowed.`,
  )
}

/** Removes an image. An image that others are based on is removed with the last of them, possibly at the same time. */
async function removeImage({ docker }: DockerEngine, image: string): Promise<void> {
  const isGoing = (error: unknown): boolean =>
    error instanceof EngineRefusal &&
    (error.status === 404 || error.status === 409 || /unrecognized image/.test(error.message))
  await docker.call('DELETE', `/images/${image}`, { query: { force: true } }).catch((error: unknown) => {
    if (!isGoing(error)) throw error
  })
}

type Restoring = {
  from: string
  left: StoppedContainer
  without: string[]
  labels: Record<string, string>
  /** Paths that the engine must not open. */
  unsafe: string[]
}

async function restored(engine: DockerEngine, { from, left, without, labels, unsafe }: Restoring): Promise<string> {
  return withDraft(engine, { image: left.imageDigest, command: null }, async (original) => {
    const paths = await realPaths(engine, original, without)
    const fill = unsafe.length === 0 ? {} : { fill: (id: string) => putAccounts(engine, id, left.imageDigest) }
    return withDraft(engine, { image: from, command: cleaning(engine, paths), ...fill }, async (draft) => {
      const body = Readable.from(originals(engine, original, paths), { objectMode: false })
      await engine.docker.call('PUT', `/containers/${draft}/archive`, {
        query: { path: '/' },
        body,
        timeoutMs: TRANSFER_MS,
      })
      return commit(engine, draft, undefined, labels)
    })
  })
}

/**
 * Paths as they are when the links of the image are followed. A link on the way is protected too: who changes it changes
 * what is behind it.
 */
async function realPaths({ docker }: DockerEngine, container: string, paths: string[]): Promise<string[]> {
  const real = new Set<string>()
  for (const path of paths) {
    let parts = partsOf(path)
    for (let length = 1, links = 0; length < parts.length && links < LINKS_MAX; length += 1) {
      const above = `/${parts.slice(0, length).join('/')}`
      const place = await statIn(docker, container, above)
      if (!place?.isLink) continue
      real.add(above)
      parts = partsOf(posix.join(posix.resolve(posix.dirname(above), place.link), ...parts.slice(length)))
      length = 0
      links += 1
    }
    real.add(`/${parts.join('/')}`)
  }
  return [...real].sort()
}

/**
 * Returns the command that removes the paths. It uses the launcher's programs, because the agent may have replaced
 * those of the sandbox.
 */
function cleaning({ launcher }: DockerEngine, paths: string[]): string[] {
  if (launcher === undefined) return ['sh', '-c', CLEAN, 'clean', ...paths]
  const remove = launcher.words('rm').join(' ')
  return launcher.words('sh', '-c', `rm() { ${remove} "$@"; }\n${CLEAN}`, 'clean', ...paths)
}

/** The paths as the image has them, in one archive. */
async function* originals({ docker }: DockerEngine, container: string, paths: string[]): AsyncGenerator<Buffer> {
  for (const path of paths) {
    const ask = { query: { path }, timeoutMs: TRANSFER_MS }
    const answer = await docker.open('GET', `/containers/${container}/archive`, ask).catch(ignoring(404))
    const above = posix.dirname(path).slice(1)
    if (answer) for await (const entry of readTarEntries(answer)) yield* original(entry, above)
  }
  yield tarEnd()
}

async function* original(entry: TarEntry, above: string): AsyncGenerator<Buffer> {
  const { mode, uid, gid, mtime, bytes, linkTarget, type } = entry
  const path = posix.join(above, entry.path)
  if (ENGINE_FILES.includes(`/${path}`)) {
    for await (const _ of entry.content());
    return
  }
  const facts = { path, mode, uid, gid, mtime, size: 0 }
  if (type === 'Directory') yield tarHeader({ ...facts, type })
  if (type === 'SymbolicLink') yield tarHeader({ ...facts, type, link: linkTarget })
  if (type === 'Link') yield tarHeader({ ...facts, type, link: posix.join(above, linkTarget) })
  if (type !== 'File' && type !== 'OldFile') return
  yield tarHeader({ ...facts, type: 'File', size: bytes })
  yield* entry.content()
  yield tarPadding(bytes)
}
