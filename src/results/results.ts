import { findContent } from '../contents/contents.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { findNamedRelease, listHistory, listPublicTasks } from '../releases/releases.ts'
import type { Release } from '../releases/shapes/schema.ts'
import { historyEntryOf } from './cards.ts'
import { feedOf } from './feed.ts'
import { Card, Line } from './schema.ts'
import { nameKeyOf } from './show.ts'
import { type LineRow, listCardRows, listLineRows } from './sql.ts'

export type Place = { owner: string; name: string }

const LIST_MAX = 1000
const PAGE = 50
const FEED_MAX = 50

type Listing = { limit?: number | undefined; cursor?: Page['cursor']; q?: string | undefined }

/** The rows are the answer: they are put together as they are. */
export async function cardsText(db: Db, { limit, cursor, q }: Listing): Promise<string> {
  const page = { limit: limit ?? (cursor ? PAGE : LIST_MAX), cursor }
  const found = await listCardRows(db, { ...page, q })
  const place = (row: (typeof found)[number]) => ({ at: row.released_at, id: row.release_id })
  const { items, nextCursor } = toPage(found, page.limit, ({ card }) => card, place)
  return `{"cards":[${items.join(',')}],"nextCursor":${JSON.stringify(nextCursor)}}`
}

export async function linesText(db: Db, place: Place): Promise<string> {
  const lines = await readLines(db, place)
  return `{"lines":[${lines.map(({ line }) => line).join(',')}]}`
}

async function readLines(db: Db, place: Place): Promise<LineRow[]> {
  const lines = await listLineRows(db, nameKeyOf(place))
  if (lines.length === 0) throw nothing(place)
  return lines
}

const nothing = ({ owner, name }: Place): Problem => new Problem(notFound, `Nothing is published of ${owner}/${name}.`)

export async function historyText(db: Db, place: Place, page: Page): Promise<string> {
  const { items, nextCursor } = await listHistory(db, place, page)
  if (items.length === 0 && !page.cursor) throw nothing(place)
  return JSON.stringify({ releases: items.map(historyEntryOf), nextCursor })
}

/** A release that was withdrawn is still to be seen, and says so. */
export async function releaseText(db: Db, { owner, name }: Place, id: string): Promise<string> {
  const found = await findNamedRelease(db, owner, name, id.toLowerCase())
  if (!found) throw nothing({ owner, name })
  return JSON.stringify(found)
}

/** Of this publisher, or of the one that is shown first. */
async function readLine(db: Db, place: Place, publisher: string | undefined): Promise<LineRow> {
  const lines = await readLines(db, place)
  const wanted = publisher?.toLowerCase()
  const found = wanted === undefined ? lines[0] : lines.find((line) => line.publisher.toLowerCase() === wanted)
  if (!found) throw new Problem(notFound, `${publisher} has published nothing of ${place.owner}/${place.name}.`)
  return found
}

export async function drawn(
  db: Db,
  place: Place,
  publisher: string | undefined,
  draw: (release: Release) => string,
): Promise<string> {
  const { line } = await readLine(db, place, publisher)
  return draw(Line.parse(JSON.parse(line)).release)
}

const LICENCE =
  'The files hold code of the repository and come under its licence. Whoever published them has said that they may.'

export async function tasksText(db: Db, place: Place, publisher: string | undefined): Promise<string> {
  const { repository } = await readLine(db, place, publisher)
  const tasks = await listPublicTasks(db, repository)
  const shown = tasks.map(({ id, title, difficulty, digest, published_at: at }) => ({
    ...{ taskId: id, title, difficulty, digest, publishedAt: at.toISOString() },
  }))
  return JSON.stringify({ tasks: shown, licence: LICENCE })
}

export async function openTaskArchive(
  tools: { db: Db; blobs: Blobs },
  place: Place,
  { publisher, taskId }: { publisher: string | undefined; taskId: string },
) {
  const { repository } = await readLine(tools.db, place, publisher)
  const task = (await listPublicTasks(tools.db, repository)).find(({ id }) => id === taskId)
  const stored = task && (await findContent(tools, task.digest))
  if (!stored) throw new Problem(notFound, 'There is no such task whose files are public.')
  return { bytes: stored.bytes, content: await tools.blobs.get(stored.archive) }
}

export async function feedText(db: Db, publicUrl: string): Promise<string> {
  const rows = await listCardRows(db, { limit: FEED_MAX })
  const cards = rows.slice(0, FEED_MAX).map(({ card }) => Card.parse(JSON.parse(card)))
  return feedOf(cards, publicUrl)
}
