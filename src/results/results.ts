import { findContent } from '../contents/contents.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { notFound, Problem } from '../platform/problem.ts'
import {
  findNamedPicks,
  findNamedRelease,
  listHeads,
  listHistory,
  listPublicTasks,
  type PublisherHead,
} from '../releases/releases.ts'
import type { Release } from '../releases/shapes/schema.ts'
import { buildLines, type PublishedLine, toHistoryEntry } from './cards.ts'
import { Card, Line } from './schema.ts'
import {
  type LineRow,
  listCardRows,
  listLineRows,
  lockName,
  type NewLine,
  replaceLines,
  searchLineRows,
} from './sql.ts'
import { escapeXml, formatPercent, formatUsd } from './text.ts'

/** Maximum number of cards in a list that is read as a whole. Longer lists are read in pages. */
const LIST_MAX = 1000
const PAGE_LIMIT = 50
const FEED_MAX = 50

type ListCardsOptions = { limit?: number | undefined; cursor?: Page['cursor']; q?: string | undefined }

/** Renders the list of cards. Rows contain the JSON of each card, which is concatenated unchanged. */
export async function renderCards(db: Db, { limit, cursor, q }: ListCardsOptions): Promise<string> {
  const page = { limit: limit ?? (cursor ? PAGE_LIMIT : LIST_MAX), cursor }
  const listed = await listCardRows(db, { ...page, q })
  const { items, nextCursor } = toPage(listed, page.limit, (row) => ({ at: row.released_at, id: row.release_id }))
  return `{"cards":[${items.map(({ card }) => card).join(',')}],"nextCursor":${JSON.stringify(nextCursor)}}`
}

/** Lists cards whose names contain this text, newest first. The language is not part of the public API. */
export async function listCards(db: Db, q: string | undefined): Promise<{ card: Card; language: string | null }[]> {
  const rows = await listCardRows(db, { limit: LIST_MAX, q })
  return rows.slice(0, LIST_MAX).map(({ card, language }) => ({ card: Card.parse(JSON.parse(card)), language }))
}

export async function renderLines(db: Db, repository: RepositoryName): Promise<string> {
  const lines = await readLines(db, repository)
  return `{"lines":[${lines.map(({ line }) => line).join(',')}]}`
}

/** Lists the lines of a repository with their cards, the default line first. Empty if nothing is public. */
export async function listPublishedLines(db: Db, repository: RepositoryName): Promise<(Line & { card: Card })[]> {
  const rows = await listLineRows(db, toNameKey(repository))
  return rows.map(({ line, card }) => ({ ...Line.parse(JSON.parse(line)), card: Card.parse(JSON.parse(card)) }))
}

/** Lists lines whose names contain this text: of repository, publisher, settings or models. Newest first. */
export async function searchLines(db: Db, text: string, limit: number): Promise<(Line & { card: Card })[]> {
  const rows = await searchLineRows(db, text, limit)
  return rows.map(({ line, card }) => ({ ...Line.parse(JSON.parse(line)), card: Card.parse(JSON.parse(card)) }))
}

async function readLines(db: Db, repository: RepositoryName): Promise<LineRow[]> {
  const lines = await listLineRows(db, toNameKey(repository))
  if (lines.length === 0) throw toNotPublishedProblem(repository)
  return lines
}

const toNotPublishedProblem = ({ owner, name }: RepositoryName): Problem =>
  new Problem(notFound, `No published results for ${owner}/${name}`)

export async function renderHistory(db: Db, repository: RepositoryName, page: Page): Promise<string> {
  const { items, nextCursor } = await listHistory(db, repository, page)
  if (items.length === 0 && !page.cursor) throw toNotPublishedProblem(repository)
  return JSON.stringify({ releases: items.map(toHistoryEntry), nextCursor })
}

/** Renders a release. Withdrawn releases remain readable and are marked. */
export async function renderRelease(db: Db, { owner, name }: RepositoryName, id: string): Promise<string> {
  const release = await findNamedRelease(db, owner, name, id.toLowerCase())
  if (!release) throw toNotPublishedProblem({ owner, name })
  return JSON.stringify(release)
}

/** Lists the picks that a release was published with. */
export const listReleasePicks = async (db: Db, { owner, name }: RepositoryName, id: string) =>
  (await findNamedPicks(db, owner, name, id.toLowerCase())) ?? []

/** Reads the line of a publisher, or the default line. */
async function readLine(db: Db, repository: RepositoryName, publisher: string | undefined): Promise<LineRow> {
  const lines = await readLines(db, repository)
  const login = publisher?.toLowerCase()
  const selected = login === undefined ? lines[0] : lines.find((line) => line.publisher.toLowerCase() === login)
  if (!selected)
    throw new Problem(notFound, `${publisher} has not published results for ${repository.owner}/${repository.name}.`)
  return selected
}

/** Renders the current release of a publisher with `draw`: as a picture or as a table. */
export async function renderDrawing(
  db: Db,
  repository: RepositoryName,
  publisher: string | undefined,
  draw: (release: Release) => string,
): Promise<string> {
  const { line } = await readLine(db, repository, publisher)
  return draw(Line.parse(JSON.parse(line)).release)
}

const LICENCE =
  'The files contain code of the repository and are subject to its licence. The publisher has stated that they may be published.'

export async function renderTasks(db: Db, repository: RepositoryName, publisher: string | undefined): Promise<string> {
  const { repository: key } = await readLine(db, repository, publisher)
  const tasks = await listPublicTasks(db, key)
  const publicTasks = tasks.map(({ id, title, difficulty, digest, published_at: at }) => ({
    taskId: id,
    title,
    difficulty,
    digest,
    publishedAt: at.toISOString(),
  }))
  return JSON.stringify({ tasks: publicTasks, licence: LICENCE })
}

export async function openTaskArchive(
  deps: { db: Db; blobs: Blobs },
  repository: RepositoryName,
  { publisher, taskId }: { publisher: string | undefined; taskId: string },
) {
  const { repository: key } = await readLine(deps.db, repository, publisher)
  const task = (await listPublicTasks(deps.db, key)).find(({ id }) => id === taskId)
  const stored = task && (await findContent(deps, task.digest))
  if (!stored) throw new Problem(notFound, `No published task ${taskId}`)
  return { bytes: stored.bytes, etag: `"${stored.archive}"`, content: await deps.blobs.get(stored.archive) }
}

export async function renderFeed(db: Db, publicUrl: string): Promise<string> {
  const rows = await listCardRows(db, { limit: FEED_MAX })
  const cards = rows.slice(0, FEED_MAX).map(({ card }) => Card.parse(JSON.parse(card)))
  return toAtomFeed(cards, publicUrl)
}

/** Renders an Atom feed (RFC 4287). It was updated when the newest release was published. */
export function toAtomFeed(cards: readonly Card[], publicUrl: string): string {
  const updated = cards[0]?.releasedAt ?? '1970-01-01T00:00:00.000Z'
  const self = escapeXml(`${publicUrl}/api/public/results.atom`)
  return `<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
<id>${self}</id>
<title>Assay: published results</title>
<updated>${updated}</updated>
<link rel="self" type="application/atom+xml" href="${self}"/>
<link rel="alternate" type="text/html" href="${escapeXml(`${publicUrl}/`)}"/>
${cards.map((card) => toAtomEntry(card, publicUrl)).join('\n')}
</feed>
`
}

const toAtomEntry = (
  { repository, publisher, releaseId, releasedAt, tasks, settings, frontier }: Card,
  publicUrl: string,
) => {
  const path = `/results/${repository.fullName.toWellFormed().split('/').map(encodeURIComponent).join('/')}`
  const lines = frontier.map(
    ({ id, accuracy, costPerTaskUsd }) => `${id}: ${formatPercent(accuracy)}, ${formatUsd(costPerTaskUsd)} per task`,
  )
  return `<entry>
<id>urn:uuid:${escapeXml(releaseId)}</id>
<title>${escapeXml(`${repository.fullName}: ${settings} settings on ${tasks} tasks`)}</title>
<author><name>${escapeXml(publisher.login)}</name></author>
<updated>${releasedAt}</updated>
<link rel="alternate" type="text/html" href="${escapeXml(`${publicUrl}${path}`)}"/>
<link rel="related" type="application/json" href="${escapeXml(`${publicUrl}/api/public${path}`)}"/>
<summary>${escapeXml(lines.join('; '))}</summary>
</entry>`
}

/** Name of a repository as in public paths. */
export type RepositoryName = { owner: string; name: string }

export const toNameKey = ({ owner, name }: RepositoryName): string => `${owner}/${name}`.toLowerCase()

/** Updates the public results of a repository, in the transaction that changed them. */
export async function updateResults(tx: Db, repository: RepositoryName): Promise<void> {
  const nameKey = toNameKey(repository)
  await lockName(tx, nameKey)
  const heads = await listHeads(tx, repository.owner, repository.name)
  const [first] = heads
  const fullName = first ? `${first.row.owner}/${first.row.name}` : ''
  await replaceLines(
    tx,
    nameKey,
    buildLines(heads, fullName).map((line) => toLineRow(nameKey, line)),
  )
}

const toLineRow = (nameKey: string, { head, card, line, isDefault }: PublishedLine<PublisherHead>): NewLine => ({
  repository: head.row.repository,
  name_key: nameKey,
  publisher: card.publisher.login,
  is_default: isDefault,
  release_id: card.releaseId,
  released_at: head.row.released_at,
  search: toSearchText(line),
  card: JSON.stringify(card),
  line: JSON.stringify(line),
  language: head.row.language,
})

const toSearchText = ({ release }: PublishedLine['line']): string =>
  [
    release.repository.fullName,
    release.publisher.login,
    ...release.settings.flatMap(({ id, model }) => [id, model.label]),
  ]
    .join('\n')
    .toLowerCase()
