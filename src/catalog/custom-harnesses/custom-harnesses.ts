import { isDeepStrictEqual } from 'node:util'
import { buildCustomHarness } from '../../harnesses/custom-harness.ts'
import type { Harness } from '../../harnesses/harness.ts'
import type { Blobs } from '../../platform/blobs/blob.ts'
import { type Db, transact } from '../../platform/db/db.ts'
import { type Page, toPage } from '../../platform/http/page.ts'
import { newId } from '../../platform/ids.ts'
import { notFound, Problem } from '../../platform/problem.ts'
import { type By, record } from '../../workspaces/audit.ts'
import { type HarnessUse, requireBundle } from './bundles.ts'
import { type CustomHarness, harnessExists, harnessInUse, harnessNameSpent, type NewHarness } from './schema.ts'
import * as rows from './sql.ts'

export type HarnessTools = HarnessUse & { blobs: Blobs }

type Added = { kind: 'added' | 'same'; harness: CustomHarness }

/** A version never changes. */
export function addHarness({ blobs }: HarnessTools, db: Db, by: By, wish: NewHarness): Promise<Added> {
  const slug = slugOf(wish.id)
  return transact(db, async (tx) => {
    await rows.lockSlug(tx, by.workspaceId, slug)
    const versions = await rows.listVersions(tx, by.workspaceId, slug)
    if (versions[0]?.removed_at) throw new Problem(harnessNameSpent, `${wish.id} was removed. Choose another name.`)
    const before = versions.find(({ version }) => version === wish.version)
    if (before && !isDeepStrictEqual(before.description, wish))
      throw new Problem(harnessExists, `${wish.id} ${wish.version} is there, and is another.`)
    if (before) return { kind: 'same', harness: shown(before) }
    if (wish.bundle) await requireBundle({ db: tx, blobs }, by.workspaceId, wish.bundle.digest)
    const fresh = { id: newId(), workspace_id: by.workspaceId, slug, version: wish.version }
    const row = await rows.insertHarness(tx, fresh, wish)
    await record(tx, { ...by, action: 'harness.added', subject: wish.id, detail: { version: wish.version } })
    return { kind: 'added', harness: shown(row) }
  })
}

export async function listHarnessPage(db: Db, workspaceId: string, page: Page) {
  const found = await rows.listHarnessRows(db, workspaceId, page)
  const { items, nextCursor } = toPage(found, page.limit, shown, (row) => ({ at: row.created_at, id: row.id }))
  return { harnesses: items, nextCursor }
}

export async function removeHarness({ isHarnessInUse }: HarnessTools, db: Db, by: By, id: string): Promise<void> {
  await transact(db, async (tx) => {
    await rows.lockSlug(tx, by.workspaceId, slugOf(id))
    const [newest] = await rows.listVersions(tx, by.workspaceId, slugOf(id))
    if (!newest || newest.removed_at) throw new Problem(notFound, `There is no harness ${id}.`)
    if (await isHarnessInUse(tx, by.workspaceId, id))
      throw new Problem(harnessInUse, `A comparison that is not over yet works with ${id}.`)
    await rows.removeVersions(tx, by.workspaceId, slugOf(id))
    await record(tx, { ...by, action: 'harness.removed', subject: id })
  })
}

const HARNESSES_MAX = 1000

/** The newest version of each. */
export async function listCustomHarnesses(db: Db, workspaceId: string): Promise<Harness[]> {
  const found = await rows.listHarnessRows(db, workspaceId, { limit: HARNESSES_MAX })
  const newest = new Map(found.toReversed().map(({ description }) => [description.id, description]))
  return [...newest.values()].map(buildCustomHarness)
}

/** A version that was once chosen, whatever became of it since. */
export async function findCustomHarness(db: Db, workspaceId: string, id: string, version: string) {
  if (!isCustomHarness(id)) return undefined
  const versions = await rows.listVersions(db, workspaceId, slugOf(id))
  const row = versions.find((each) => each.version === version)
  return row && buildCustomHarness(row.description)
}

export const isCustomHarness = (id: string): boolean => id.startsWith(PREFIX)

const PREFIX = 'custom/'
const slugOf = (id: string): string => id.slice(PREFIX.length)

const shown = (row: rows.HarnessRow): CustomHarness => ({ ...row.description, createdAt: row.created_at.toISOString() })
