import type { Db } from '../platform/db/db.ts'
import { listHeads, type PublisherHead } from '../releases/releases.ts'
import { buildLines, type PublishedLine } from './cards.ts'
import { lockName, type NewLine, replaceLines } from './sql.ts'

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
