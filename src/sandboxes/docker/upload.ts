import { posix } from 'node:path'
import { Readable } from 'node:stream'
import { readTarEntries, type TarEntry } from '../../harbor/tar-reader.ts'
import { staysInside } from '../kernel/collect.ts'
import { partsOf } from '../kernel/inside.ts'
import { PLAIN_MODE, tarEnd, tarHeader, tarPadding } from '../kernel/tar-writer.ts'
import { partsIn, refused } from '../kernel/upload-path.ts'
import type { SandboxSpec, SandboxUpload } from '../sandbox.ts'
import { TRANSFER_MS } from './client.ts'
import { statIn } from './container-files.ts'
import type { DockerEngine } from './engine.ts'

type ContainerUploads = { id: string; spec: SandboxSpec; workspace: Readable[] }

/** Everything that goes into a container before it starts, in one archive: each request of this kind costs much. */
export async function putUploads(engine: DockerEngine, { id, spec, workspace }: ContainerUploads): Promise<void> {
  if (workspace.length === 0 && spec.uploads.length === 0) return
  const made = new Set<string>()
  for (const { target } of spec.uploads) for (const path of await newFolders(engine, id, target)) made.add(path)
  const body = Readable.from(archive(workspace, spec.uploads, made), { objectMode: false })
  const failed = Promise.withResolvers<never>()
  failed.promise.catch(() => {})
  body.once('error', failed.reject) // what was refused says more than the engine about half an archive
  const put = engine.docker.call('PUT', `/containers/${id}/archive`, {
    query: { path: '/' },
    body,
    timeoutMs: TRANSFER_MS,
  })
  await Promise.race([
    put.catch((error: unknown) => (body.errored ? failed.promise : Promise.reject(error))),
    failed.promise,
  ])
}

/** A link on the way would lead the archive elsewhere in the sandbox. */
async function newFolders({ docker }: DockerEngine, id: string, target: string): Promise<string[]> {
  const parts = partsOf(target)
  for (let length = 1; length <= parts.length; length += 1) {
    const path = `/${parts.slice(0, length).join('/')}`
    const place = await statIn(docker, id, path)
    if (place === undefined) return parts.slice(length - 1).map((_, index) => parts.slice(0, length + index).join('/'))
    if (!place.isFolder) throw refused(path, place.isLink ? 'a link in the image' : 'no folder')
  }
  return []
}

async function* archive(workspace: Readable[], inserts: SandboxUpload[], made: Set<string>): AsyncGenerator<Buffer> {
  for (const tar of workspace) yield* tar
  for (const path of made) yield tarHeader({ path, type: 'Directory', mode: 0o755, uid: 0, gid: 0, size: 0 })
  for (const { target, tar } of inserts) {
    for await (const entry of readTarEntries(tar)) yield* rewritten(entry, partsOf(target))
  }
  yield tarEnd()
}

async function* rewritten(entry: TarEntry, target: string[]): AsyncGenerator<Buffer> {
  const parts = partsIn(entry)
  if (parts.length === 0) return
  const { uid, gid, mtime, bytes } = entry
  const facts = { path: posix.join(...target, ...parts), mode: entry.mode & PLAIN_MODE, uid, gid, mtime }
  switch (entry.type) {
    case 'Directory':
      yield tarHeader({ ...facts, type: 'Directory', size: 0 })
      return
    case 'File':
    case 'OldFile':
      yield tarHeader({ ...facts, type: 'File', size: bytes })
      yield* entry.content()
      yield tarPadding(bytes)
      return
    case 'SymbolicLink':
      if (!staysInside(`top/${parts.join('/')}`, entry.linkTarget)) throw refused(entry.path, 'a link that leads out')
      yield tarHeader({ ...facts, type: 'SymbolicLink', size: 0, link: entry.linkTarget })
      return
    default:
      throw refused(entry.path, `of kind ${entry.type}`)
  }
}
