import type { Db } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { invalidRequest, Problem } from '../platform/problem.ts'
import { averageUsd } from '../platform/usd.ts'
import type { RepositoryRow } from '../repos/repos.ts'
import { isOnlyWorkspace, LOCAL } from '../workspaces/workspaces.ts'
import { isComplete, microsOf, passedOf, type Result, tasksOf, usdOf } from './aggregate.ts'
import { disclosureOf } from './disclosure.ts'
import { type Content, contentOf, namesOf } from './document.ts'
import { type Facts, readFacts } from './facts.ts'
import { mayPublish, type PublicOwners } from './owners.ts'
import { ownerNotAssigned, repositoryPrivate } from './schema.ts'
import { type Pair, type Preview, type PreviewSetting, Release, type ReleaseSetting } from './shapes/schema.ts'
import { findNewest, type ReleaseRow } from './sql.ts'
import { difference, tracksOf } from './statistics/paired.ts'
import { scoresOf } from './statistics/stats.ts'

export type Publisher = KeyCaller['workspace']
export type PreviewTools = { publicOwners: PublicOwners }

/** A repository as it stands, with what was published last. */
export type Standing = { repository: RepositoryRow; publisher: Publisher; facts: Facts; head: ReleaseRow | undefined }

export async function readStanding(db: Db, repository: RepositoryRow, publisher: Publisher): Promise<Standing> {
  const newest = await findNewest(db, repository.key)
  const head = newest?.withdrawn_at === null ? newest : undefined
  return { repository, publisher, facts: await readFacts(db, repository.key), head }
}

export async function previewRelease(
  tools: PreviewTools & { db: Db },
  standing: Standing,
  wanted?: readonly string[],
): Promise<Preview> {
  const chosen = chosenOf(standing.facts.results, wanted)
  return previewOf(standing, chosen, await blockersOf(tools, standing))
}

/** Without a wish: all that can be published. */
function chosenOf(results: readonly Result[], wanted: readonly string[] | undefined): Result[] {
  if (!wanted) return results.filter(({ reason }) => reason === undefined)
  const known = new Set(results.map(({ id }) => id))
  const errors = wanted
    .filter((id) => !known.has(id))
    .map((id) => ({ pointer: '/query/setting', code: 'unknown_setting', message: `There is no setting ${id}.` }))
  if (errors[0]) throw new Problem(invalidRequest, errors[0].message, { errors })
  return results.filter(({ id, reason }) => wanted.includes(id) && reason === undefined)
}

export async function blockersOf(
  { db, publicOwners }: PreviewTools & { db: Db },
  { repository, publisher, facts }: Standing,
): Promise<Preview['blockers']> {
  const blockers: Preview['blockers'] = []
  if (repository.visibility !== 'public')
    blockers.push({ code: repositoryPrivate.code, message: notPublic(repository) })
  const isOnly = publisher.login === LOCAL && (await isOnlyWorkspace(db))
  if (!mayPublish(repository, publisher.login, { publicOwners, isOnlyWorkspace: isOnly }))
    blockers.push({ code: ownerNotAssigned.code, message: notAssigned(repository.owner) })
  if (facts.results.every(({ reason }) => reason !== undefined))
    blockers.push({ code: 'no_results', message: 'No setting has results that can be published.' })
  return blockers
}

export const notPublic = (repository: RepositoryRow): string =>
  `Only results of public repositories can be published. ${howToShow(repository)}`

const howToShow = (repository: RepositoryRow): string =>
  repository.source_kind === 'git'
    ? `Where everybody may see ${fullNameOf(repository)}, say so: assay repos connect ${fullNameOf(repository)} --public --git ${repository.url ?? '<address>'}`
    : `Its code host does not show ${fullNameOf(repository)} to everybody: make it public there, and publish again.`

export const notAssigned = (owner: string): string =>
  `The operator has not assigned the owner ${owner} to this workspace (ASSAY_PUBLIC_OWNERS).`

function previewOf(
  { repository, publisher, facts, head }: Standing,
  chosen: Result[],
  blockers: Preview['blockers'],
): Preview {
  const content = contentOf(chosen)
  const approved = facts.tasks.map(({ digest }) => digest)
  return {
    repository: { id: repository.id, fullName: fullNameOf(repository), visibility: repository.visibility },
    publisher: { login: publisher.login, kind: publisher.kind },
    head: head?.id ?? null,
    fingerprint: facts.fingerprint,
    tasks: content.tasks.length,
    settings: facts.results.map((result) => settingOf(result, content, tasksOf(chosen))),
    frontier: content.frontier,
    pairs: pairsOf(chosen, content.frontier),
    disclosure: disclosureOf(facts.results, chosen, approved, facts.run),
    blockers,
    changes: changesOf(head, content.settings),
  }
}

export const fullNameOf = ({ owner, name }: { owner: string; name: string }): string => `${owner}/${name}`

function settingOf(result: Result, content: Content, tasks: readonly string[]): PreviewSetting {
  const shown = content.settings.find(({ id }) => id === result.id)
  const [micros, passed, count] = [microsOf(result), passedOf(result), result.cells.length]
  return {
    key: result.id,
    ...namesOf(result),
    ...{ tasks: count, passed, accuracy: count === 0 ? null : (100 * passed) / count },
    costPerTaskUsd: micros === null ? null : averageUsd(micros, count),
    totalCostUsd: micros === null ? null : usdOf(micros),
    onFrontier: content.frontier.includes(result.id),
    isolation: result.isolation,
    stats: shown?.stats ?? null,
    selected: shown !== undefined,
    complete: isComplete(result, tasks),
    ...{ errored: result.errored, voided: result.voided },
    publishable: result.reason === undefined,
    ...(result.reason === undefined ? {} : { reason: result.reason }),
  }
}

function pairsOf(chosen: readonly Result[], frontier: readonly string[]): Pair[] {
  const shown = frontier.flatMap((id) => chosen.filter((each) => each.id === id))
  const tracks = tracksOf(shown.map(scoresOf))
  return tracks.flatMap((own, place) =>
    tracks.slice(place + 1).flatMap((other, offset): Pair[] => {
      const found = difference(own, other)
      const [a, b] = [frontier[place], frontier[place + 1 + offset]]
      if (!found || a === undefined || b === undefined) return []
      const { tasks, mean, low, high, wins, losses, ties } = found
      return [{ a, b, tasks, difference: 100 * mean, low: 100 * low, high: 100 * high, wins, losses, ties }]
    }),
  )
}

function changesOf(head: ReleaseRow | undefined, settings: readonly ReleaseSetting[]): Preview['changes'] {
  const before = new Map(head ? documentOf(head).settings.map((setting) => [setting.id, numbersOf(setting)]) : [])
  const now = new Map(settings.map((setting) => [setting.id, numbersOf(setting)]))
  return {
    added: [...now.keys()].filter((id) => !before.has(id)),
    removed: [...before.keys()].filter((id) => !now.has(id)),
    moved: [...now].filter(([id, numbers]) => before.has(id) && before.get(id) !== numbers).map(([id]) => id),
  }
}

const numbersOf = ({ tasks, passed, totalCostUsd, onFrontier }: ReleaseSetting): string =>
  JSON.stringify([tasks, passed, totalCostUsd, onFrontier])

export const documentOf = ({ document }: Pick<ReleaseRow, 'document'>): Release => Release.parse(JSON.parse(document))
