import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Digest } from '../../../platform/blobs/blob.ts'
import { fileBlobs } from '../../../platform/blobs/file-blobs.ts'
import { createOutbound } from '../../../platform/outbound/outbound.ts'
import { type Downloaded, type DownloadOptions, downloadDataset } from '../download.ts'
import type { Patience } from '../patience.ts'
import { readReference } from '../reference.ts'
import type { Registry, Resolution, ResolvedDataset, ResolveOptions } from '../registry.ts'
import { type StoredTask, type TaskStore, taskStore } from '../task-store.ts'

/** A place to download to, and a clock that does not tick: pauses are only written down. */
export type Workbench = AsyncDisposable & {
  folder: string
  scratch: string
  store: TaskStore
  index: Map<Digest, StoredTask>
  patience: Patience
  pauses: number[]
  outbound: ReturnType<typeof createOutbound>
  resolve(registry: Registry, reference: string, options?: Partial<ResolveOptions>): Promise<Resolution>
  /** The dataset, or an error that says what there was instead. */
  found(registry: Registry, reference: string, options?: Partial<ResolveOptions>): Promise<ResolvedDataset>
  download(registry: Registry, dataset: ResolvedDataset, options?: Partial<DownloadOptions>): Promise<Downloaded>
  /** What lies around in the scratch folder. */
  leftovers(): Promise<string[]>
}

export async function openWorkbench(): Promise<Workbench> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-registries-'))
  const scratch = join(folder, 'scratch')
  await mkdir(scratch)
  const index = new Map<Digest, StoredTask>()
  const store = taskStore(fileBlobs(join(folder, 'blobs')), {
    find: async (digests) => digests.flatMap((digest) => index.get(digest) ?? []),
    add: async (task) => void index.set(task.digest, task),
  })
  const pauses: number[] = []
  const patience: Patience = { pause: async (ms) => void pauses.push(ms) }
  const signal = new AbortController().signal
  const resolve: Workbench['resolve'] = (registry, text, options) => {
    const reference = readReference(text)
    if ('refused' in reference) throw new Error(reference.refused)
    return registry.resolve(reference, { signal, ...options })
  }
  return {
    ...{ folder, scratch, store, index, patience, pauses, outbound: createOutbound(), resolve },
    async found(registry, reference, options) {
      const resolution = await resolve(registry, reference, options)
      if (resolution.kind === 'found') return resolution.dataset
      throw new Error(`${reference} is not found: ${JSON.stringify(resolution)}`)
    },
    download: (registry, dataset, options) =>
      downloadDataset({ registry, store, scratch, patience }, dataset, { signal, ...options }),
    leftovers: () => readdir(scratch),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}
