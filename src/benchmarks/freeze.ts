import { join } from 'node:path'
import { z } from 'zod'
import { withDraft } from '../contents/contents.ts'
import { downloadDataset } from '../harbor/registries/download.ts'
import type { TaskFault } from '../harbor/registries/receive.ts'
import { type AccessOptions, formatTaskName, type ResolvedDataset } from '../harbor/registries/registry.ts'
import type { StoredTask } from '../harbor/registries/task-store.ts'
import { Digest } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import type { AddBenchmarkDeps } from './add.ts'
import { type BenchmarkRef, findResolved } from './sql.ts'

type FrozenBenchmarkTask = { name: string; stored: StoredTask }

export type FreezeResult =
  | { kind: 'frozen'; digest: string; tasks: FrozenBenchmarkTask[] }
  /** The content in the registry differs from what was checked. */
  | { kind: 'changed'; detail: string }
  /** The dataset was removed from the registry. */
  | { kind: 'gone'; detail: string }
  | { kind: 'unauthorized'; detail: string }

/**
 * Downloads a benchmark again by its resolved revision, never by its tag, and compares every digest: trials run exactly
 * what was checked. Throws RegistryUnavailable; a retry continues the download.
 */
export async function freezeDataset(
  deps: AddBenchmarkDeps,
  workspaceId: string,
  resolved: unknown,
  signal: AbortSignal,
): Promise<FreezeResult> {
  const dataset = StoredResolution.parse(resolved)
  const key = await deps.registryKey(workspaceId)
  const access: AccessOptions = key === undefined ? { signal } : { signal, key }
  return withDraft(deps, `freeze-${dataset.digest?.replace(':', '-')}`, async (draft) => {
    const store = await draft.fresh(dataset.tasks.flatMap(({ digest }) => digest ?? []))
    const downloadDeps = { registry: deps.registry, store, scratch: join(deps.draftsFolder, 'scratch') }
    const downloaded = await downloadDataset(downloadDeps, dataset, access)
    if (downloaded.kind === 'unauthorized') return downloaded
    if (downloaded.kind === 'refused') return toFailedFreeze(downloaded.faults)
    const tasks = downloaded.dataset.tasks.map((task) => ({ name: formatTaskName(task), stored: task.stored }))
    await draft.commit(tasks.map((task) => task.stored))
    return { kind: 'frozen', digest: downloaded.dataset.digest, tasks }
  })
}

function toFailedFreeze(faults: readonly TaskFault[]): FreezeResult {
  const missing = faults.find(({ reason }) => reason === 'missing')
  if (missing) return { kind: 'gone', detail: missing.detail }
  return { kind: 'changed', detail: faults[0]?.detail ?? '' }
}

/** Finds the dataset that a benchmark was resolved to. It can be frozen even after the benchmark is removed. */
export async function findResolvedDataset(
  db: Db,
  ref: BenchmarkRef,
): Promise<{ tasks: number; resolved: unknown } | undefined> {
  return findResolved(db, ref)
}

/** Resolution of a dataset, as stored in the database. */
const StoredResolution: z.ZodType<ResolvedDataset> = z.object({
  registry: z.string(),
  org: z.string(),
  name: z.string(),
  ref: z.string(),
  resolvedRef: z.string(),
  revision: z.number().nullable(),
  description: z.string(),
  digest: Digest,
  tasks: z.array(
    z.object({
      org: z.string(),
      name: z.string(),
      digest: Digest,
      at: z.discriminatedUnion('kind', [
        z.object({ kind: z.literal('archive'), path: z.string() }),
        z.object({ kind: z.literal('git'), url: z.string(), commit: z.string(), path: z.string() }),
        z.object({ kind: z.literal('folder'), path: z.string() }),
      ]),
    }),
  ),
  files: z.array(z.object({ path: z.string(), digest: Digest })),
})
