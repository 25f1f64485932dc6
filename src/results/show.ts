import type { Db } from '../platform/db/db.ts'
import { type Head, listHeads } from '../releases/releases.ts'
import { type Shown, shownOf } from './cards.ts'
import { lockName, type NewLine, replaceLines } from './sql.ts'

type Place = { owner: string; name: string }

export const nameKeyOf = ({ owner, name }: Place): string => `${owner}/${name}`.toLowerCase()

/** Brings what everybody reads of a repository up to date, in the transaction of whatever changed it. */
export async function show(tx: Db, place: Place): Promise<void> {
  const nameKey = nameKeyOf(place)
  await lockName(tx, nameKey)
  const heads = await listHeads(tx, place.owner, place.name)
  const [first] = heads
  const fullName = first ? `${first.row.owner}/${first.row.name}` : ''
  await replaceLines(
    tx,
    nameKey,
    shownOf(heads, fullName).map((shown) => lineRowOf(nameKey, shown)),
  )
}

const lineRowOf = (nameKey: string, { head, card, line, isDefault }: Shown<Head>): NewLine => ({
  ...{ repository: head.row.repository, name_key: nameKey, publisher: card.publisher.login, is_default: isDefault },
  ...{ release_id: card.releaseId, released_at: head.row.released_at },
  search: searchText(line),
  ...{ card: JSON.stringify(card), line: JSON.stringify(line) },
})

const searchText = ({ release }: Shown['line']): string =>
  [
    release.repository.fullName,
    release.publisher.login,
    ...release.settings.flatMap(({ id, model }) => [id, model.label]),
  ]
    .join('\n')
    .toLowerCase()
