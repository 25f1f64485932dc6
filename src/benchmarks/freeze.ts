import { join } from 'node:path'
import { withDraft } from '../contents/drafts.ts'
import { downloadDataset } from '../harbor/registries/download.ts'
import type { TaskFault } from '../harbor/registries/receive.ts'
import { type AccessOptions, formatTaskName } from '../harbor/registries/registry.ts'
import type { StoredTask } from '../harbor/registries/task-store.ts'
import type { Db } from '../platform/db/db.ts'
import type { AddTools } from './add.ts'
import { StoredResolution } from './resolved.ts'
import { findResolved, type Place } from './sql.ts'

type FrozenTask = { name: string; stored: StoredTask }

export type Freezing =
  | { kind: 'frozen'; digest: string; tasks: FrozenTask[] }
  /** The registry has other bytes now than those that were checked. */
  | { kind: 'changed'; detail: string }
  /** The registry does not have it any more. */
  | { kind: 'gone'; detail: string }
  | { kind: 'unauthorized'; detail: string }

/**
 * Downloads a benchmark again, by what it was resolved to and never by its tag, and compares every digest: trials run
 * exactly what was checked. Throws RegistryUnavailable; the next try goes on where it was.
 */
export async function freezeDataset(
  tools: AddTools,
  workspaceId: string,
  resolved: unknown,
  signal: AbortSignal,
): Promise<Freezing> {
  const dataset = StoredResolution.parse(resolved)
  const key = await tools.registryKey(workspaceId)
  const access: AccessOptions = { signal, ...(key === undefined ? {} : { key }) }
  return withDraft(tools, `freeze-${dataset.digest?.replace(':', '-')}`, async (draft) => {
    const store = await draft.fresh(dataset.tasks.flatMap(({ digest }) => digest ?? []))
    const downloading = { registry: tools.registry, store, scratch: join(tools.draftsFolder, 'scratch') }
    const downloaded = await downloadDataset(downloading, dataset, access)
    if (downloaded.kind === 'unauthorized') return downloaded
    if (downloaded.kind === 'refused') return refusalOf(downloaded.faults)
    const tasks = downloaded.dataset.tasks.map((task) => ({ name: formatTaskName(task), stored: task.stored }))
    await draft.keep(tasks.map((task) => task.stored))
    return { kind: 'frozen', digest: downloaded.dataset.digest, tasks }
  })
}

function refusalOf(faults: readonly TaskFault[]): Freezing {
  const missing = faults.find(({ reason }) => reason === 'missing')
  if (missing) return { kind: 'gone', detail: missing.detail }
  return { kind: 'changed', detail: faults[0]?.detail ?? '' }
}

/** What a benchmark was resolved to when it was added: whoever keeps it can freeze it, also when it was removed. */
export async function findForFreezing(db: Db, place: Place): Promise<{ tasks: number; resolved: unknown } | undefined> {
  const found = await findResolved(db, place)
  return found && { tasks: found.tasks, resolved: found.resolved }
}
