import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { removeCgroup } from '../kernel/cgroup.ts'
import { type NamespaceProcess, startNamespaceProcess } from '../kernel/namespace-process.ts'
import { killProcess, listOrphans, waitForEnd } from '../kernel/ownership.ts'
import { removeTree } from '../kernel/run-program.ts'
import { renderCommand } from '../kernel/shell.ts'
import type { Image } from '../sandbox.ts'
import { removeWithBuildah } from './buildah.ts'
import type { SandboxFiles } from './files.ts'
import { DRAFTS, type ImageStore, listImages } from './image-store.ts'
import type { Host } from './machine.ts'
import { isPipeRecord } from './process-io.ts'
import { listAbandoned, removeRecord, type SandboxRecord } from './record.ts'

/** The parts of this machine with which the store can be cleaned, also by providers without local sandboxes. */
export type StoreHost = Pick<Host, 'store' | 'rootless'>

/** Removes the resources of a sandbox. The record is removed last, so that `reap` repeats a removal that failed. */
export async function removeSandbox(
  host: Host,
  {
    record,
    files,
    namespaceProcess,
  }: { record: SandboxRecord; files: SandboxFiles; namespaceProcess: NamespaceProcess | undefined },
): Promise<void> {
  await removeCgroup(record.cgroups)
  if (namespaceProcess) await releaseNamespace(host, namespaceProcess, files)
  await removeFolderAndRecord(host, record)
}

/** Removes the folder of a sandbox or a sandbox network, and then its record. */
export async function removeFolderAndRecord(host: StoreHost, { id }: SandboxRecord): Promise<void> {
  await removeFolder(host, join('run', id))
  await removeRecord(join(host.store.folder, 'records'), id)
}

/** Puts the namespace process back into the pool it came from, or ends it. */
async function releaseNamespace(
  { namespacePool, store }: Host,
  namespaceProcess: NamespaceProcess,
  files: SandboxFiles,
): Promise<void> {
  const isPooled = namespacePool.owns(namespaceProcess)
  const isUnmounted = (isPooled || files.disk !== undefined) && (await unmount(namespaceProcess, store.folder, files))
  await (isPooled && isUnmounted ? namespacePool.put(namespaceProcess) : namespaceProcess.end())
}

/** Unmounts the files of a sandbox at once. The kernel also does it some time after the namespace process has ended. */
async function unmount(
  namespaceProcess: NamespaceProcess,
  folder: string,
  { root, disk }: SandboxFiles,
): Promise<boolean> {
  const mountPoints = [root, ...(disk === undefined ? [] : [disk])].map((path) => join(folder, path))
  const { code } = await namespaceProcess
    .run(`cd /; ${renderCommand('umount', ...mountPoints)}`)
    .catch(() => ({ code: -1 }))
  return code === 0
}

/** Deletes a folder. Without root, files of other users can only be deleted by the root user of a user namespace. */
async function removeFolder({ store, rootless }: StoreHost, path: string): Promise<unknown> {
  const folder = join(store.folder, path)
  if (!rootless) return removeTree(folder)
  const namespace = await startNamespaceProcess({ rootless, copyMountsOf: undefined, cwd: '/' })
  try {
    return await namespace.runOrThrow('Removing the files of a sandbox', renderCommand('rm', '-rf', '--', folder))
  } finally {
    await namespace.end()
  }
}

/** Removes the sandboxes of dead servers and returns their number. The kernel has already removed their mounts. */
export async function reap(host: StoreHost & Pick<Host, 'log'>): Promise<number> {
  const { store, log } = host
  const records = join(store.folder, 'records')
  const abandoned = await listAbandoned(records)
  for (const record of abandoned) {
    try {
      await reapOne(host, record)
      log.info({ sandbox: record.id }, 'removed an orphaned sandbox')
    } catch (error) {
      // A failed removal must not prevent the others.
      log.error({ sandbox: record.id, error: String(error) }, 'could not remove an orphaned sandbox')
    }
  }
  await reapDrafts(host)
  return abandoned.filter((record) => !isPipeRecord(record)).length
}

/** Removes unfinished images whose builder or importer has died. */
async function reapDrafts(host: StoreHost & Pick<Host, 'log'>): Promise<void> {
  const names = await listOrphans(join(host.store.folder, DRAFTS.folder), DRAFTS.kind)
  for (const name of names) {
    await removeFolder(host, join(DRAFTS.folder, name)).catch((error: unknown) => {
      host.log.error({ draft: name, error: String(error) }, 'could not remove an orphaned draft')
    })
  }
}

async function reapOne(host: StoreHost, record: SandboxRecord): Promise<void> {
  await removeCgroup(record.cgroups)
  if (record.namespaceProcess) {
    await killProcess(record.namespaceProcess)
    await waitForEnd(record.namespaceProcess)
  }
  await removeFolderAndRecord(host, record)
}

/** Removes a built image with its layers, except those of other images. Imported and pulled images are left alone. */
export async function discardImage(host: StoreHost, { digest }: Pick<Image, 'digest'>): Promise<void> {
  const { store } = host
  const keys = await listBuildKeys(store, digest)
  if (keys.length === 0) return
  const images = await listImages(store)
  const layersOfImage = images.filter((each) => each.digest === digest).flatMap(({ layers }) => layers)
  const layersOfOthers = new Set(images.filter((each) => each.digest !== digest).flatMap(({ layers }) => layers))
  for (const key of keys) await rm(join(store.folder, 'builds', key), { force: true })
  await rm(join(store.folder, 'images', `${encodeURIComponent(digest)}.json`), { force: true })
  const unused = layersOfImage.filter((layer) => !layersOfOthers.has(layer))
  if (unused.some((layer) => !layer.startsWith(OWN_LAYERS))) await removeWithBuildah(store, keys)
  for (const layer of unused) if (layer.startsWith(OWN_LAYERS)) await removeFolder(host, layer)
}

/** Prefix of the layers of our own builder. Others belong to buildah. */
const OWN_LAYERS = 'layers/'

/** Lists the keys of the builds whose result is this image. */
async function listBuildKeys(store: ImageStore, digest: string): Promise<string[]> {
  const folder = join(store.folder, 'builds')
  const names = await readdir(folder)
  const digests = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8').catch(() => '')))
  return names.filter((_, index) => digests[index] === digest)
}
