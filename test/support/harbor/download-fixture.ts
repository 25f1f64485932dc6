import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DownloadOptions, type DownloadOutcome, downloadDataset } from '../../../src/harbor/registries/download.ts'
import {
  parseReference,
  type Registry,
  type Resolution,
  type ResolvedDataset,
  type ResolveOptions,
} from '../../../src/harbor/registries/registry.ts'
import type { RetryTimer } from '../../../src/harbor/registries/registry-request.ts'
import { createTaskStore, type StoredTask, type TaskStore } from '../../../src/harbor/registries/task-store.ts'
import type { Digest } from '../../../src/platform/blobs/blob.ts'
import { fileBlobs } from '../../../src/platform/blobs/file-blobs.ts'
import { createOutbound } from '../../../src/platform/outbound/outbound.ts'

/** A store to download to, and a retry timer that records pauses without waiting. */
export type DownloadFixture = AsyncDisposable & {
  folder: string
  scratch: string
  store: TaskStore
  index: Map<Digest, StoredTask>
  retryTimer: RetryTimer
  pauses: number[]
  outbound: ReturnType<typeof createOutbound>
  resolve(registry: Registry, reference: string, options?: Partial<ResolveOptions>): Promise<Resolution>
  /** Resolves a reference that must exist. Throws an error with the resolution otherwise. */
  resolveDataset(registry: Registry, reference: string, options?: Partial<ResolveOptions>): Promise<ResolvedDataset>
  /** Downloads a dataset. With `reuse: false`, tasks that are stored already are downloaded again. */
  download(
    registry: Registry,
    dataset: ResolvedDataset,
    options?: Partial<DownloadOptions> & { reuse?: false },
  ): Promise<DownloadOutcome>
  /** Lists the files in the scratch folder. */
  leftovers(): Promise<string[]>
}

export async function createDownloadFixture(): Promise<DownloadFixture> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-registries-'))
  const scratch = join(folder, 'scratch')
  await mkdir(scratch)
  const index = new Map<Digest, StoredTask>()
  const store = createTaskStore(fileBlobs(join(folder, 'blobs')), {
    find: async (digests) => digests.flatMap((digest) => index.get(digest) ?? []),
    add: async (task) => void index.set(task.digest, task),
  })
  const pauses: number[] = []
  const retryTimer: RetryTimer = { pause: async (ms) => void pauses.push(ms) }
  const signal = new AbortController().signal
  const resolve: DownloadFixture['resolve'] = (registry, text, options) => {
    const reference = parseReference(text)
    if ('refused' in reference) throw new Error(reference.refused)
    return registry.resolve(reference, { signal, ...options })
  }
  return {
    folder,
    scratch,
    store,
    index,
    retryTimer,
    pauses,
    outbound: createOutbound(),
    resolve,
    async resolveDataset(registry, reference, options) {
      const resolution = await resolve(registry, reference, options)
      if (resolution.kind === 'found') return resolution.dataset
      throw new Error(`${reference} did not resolve to a dataset: ${JSON.stringify(resolution)}`)
    },
    download(registry, dataset, { reuse, ...options } = {}) {
      const target = reuse === false ? { ...store, find: async () => new Map() } : store
      return downloadDataset({ registry, store: target, scratch, retryTimer }, dataset, { signal, ...options })
    },
    leftovers: () => readdir(scratch),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}
