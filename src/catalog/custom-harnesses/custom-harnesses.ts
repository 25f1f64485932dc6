import { isDeepStrictEqual } from 'node:util'
import { buildCustomHarness } from '../../harnesses/custom-harness.ts'
import type { Harness } from '../../harnesses/harness.ts'
import type { Blobs } from '../../platform/blobs/blob.ts'
import { type Db, transact } from '../../platform/db/db.ts'
import { type Page, toPage } from '../../platform/http/page.ts'
import { newId } from '../../platform/ids.ts'
import { notFound, Problem } from '../../platform/problem.ts'
import { type AuditActor, record } from '../../workspaces/audit.ts'
import { type HarnessUse, requireBundle } from './bundles.ts'
import { type CustomHarness, harnessExists, harnessInUse, harnessNameSpent, type NewHarness } from './schema.ts'
import * as rows from './sql.ts'

export type CustomHarnessDeps = HarnessUse & { blobs: Blobs }

type AddedHarness = { kind: 'added' | 'same'; harness: CustomHarness }

/** Adds a version of a harness. Versions are immutable. */
export function addHarness(
  { blobs }: CustomHarnessDeps,
  db: Db,
  by: AuditActor,
  input: NewHarness,
): Promise<AddedHarness> {
  const slug = toHarnessSlug(input.id)
  return transact(db, async (tx) => {
    await rows.lockSlug(tx, by.workspaceId, slug)
    const versions = await rows.listVersions(tx, by.workspaceId, slug)
    if (versions[0]?.removed_at) throw new Problem(harnessNameSpent, `${input.id} was removed. Choose another id.`)
    const existing = versions.find(({ version }) => version === input.version)
    if (existing && !isDeepStrictEqual(existing.description, input))
      throw new Problem(
        harnessExists,
        `${input.id} ${input.version} exists with a different description. Choose another version.`,
      )
    if (existing) return { kind: 'same', harness: toCustomHarness(existing) }
    if (input.bundle) await requireBundle({ db: tx, blobs }, by.workspaceId, input.bundle.digest)
    const keys = { id: newId(), workspace_id: by.workspaceId, slug, version: input.version }
    const row = await rows.insertHarness(tx, keys, input)
    await record(tx, { ...by, action: 'harness.added', subject: input.id, detail: { version: input.version } })
    return { kind: 'added', harness: toCustomHarness(row) }
  })
}

export async function listHarnessPage(db: Db, workspaceId: string, page: Page) {
  const found = await rows.listHarnessRows(db, workspaceId, page)
  const { items, nextCursor } = toPage(found, page.limit, toCustomHarness, (row) => ({
    at: row.created_at,
    id: row.id,
  }))
  return { harnesses: items, nextCursor }
}

export async function removeHarness(
  { isHarnessInUse }: CustomHarnessDeps,
  db: Db,
  by: AuditActor,
  id: string,
): Promise<void> {
  await transact(db, async (tx) => {
    await rows.lockSlug(tx, by.workspaceId, toHarnessSlug(id))
    const [newest] = await rows.listVersions(tx, by.workspaceId, toHarnessSlug(id))
    if (!newest || newest.removed_at) throw new Problem(notFound, `Harness ${id} not found.`)
    if (await isHarnessInUse(tx, by.workspaceId, id))
      throw new Problem(harnessInUse, `An unfinished comparison uses ${id}.`)
    await rows.removeVersions(tx, by.workspaceId, toHarnessSlug(id))
    await record(tx, { ...by, action: 'harness.removed', subject: id })
  })
}

const HARNESSES_MAX = 1000

/** Lists the newest version of each custom harness. */
export async function listCustomHarnesses(db: Db, workspaceId: string): Promise<Harness[]> {
  const found = await rows.listHarnessRows(db, workspaceId, { limit: HARNESSES_MAX })
  // Rows are sorted newest first. The last entry of a key wins in a Map, so the newest version must come last.
  const newest = new Map(found.toReversed().map(({ description }) => [description.id, description]))
  return [...newest.values()].map(buildCustomHarness)
}

/** Finds a version of a custom harness, also if it has been removed: comparisons may still use it. */
export async function findCustomHarness(db: Db, workspaceId: string, id: string, version: string) {
  if (!isCustomHarness(id)) return undefined
  const versions = await rows.listVersions(db, workspaceId, toHarnessSlug(id))
  const row = versions.find((each) => each.version === version)
  return row && buildCustomHarness(row.description)
}

export const isCustomHarness = (id: string): boolean => id.startsWith(PREFIX)

const PREFIX = 'custom/'
const toHarnessSlug = (id: string): string => id.slice(PREFIX.length)

const toCustomHarness = (row: rows.HarnessRow): CustomHarness => ({
  ...row.description,
  createdAt: row.created_at.toISOString(),
})
