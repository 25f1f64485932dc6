import type { Db } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { invalidRequest, Problem } from '../platform/problem.ts'
import { averageUsd, toUsd } from '../platform/usd.ts'
import { GITHUB } from '../repos/github.ts'
import type { RepositoryRow } from '../repos/repos.ts'
import { alignScores, estimateDifference } from '../statistics/paired.ts'
import { hasSeveralWorkspaces, LOCAL } from '../workspaces/workspaces.ts'
import { countPassed, isComplete, listTasks, type SettingResult, sumCostMicros } from './aggregate.ts'
import { buildContent, buildDisclosure, type ReleaseContent, toSettingNames } from './document.ts'
import { loadFacts, type ReleaseFacts } from './facts.ts'
import { nameTaken, ownerNotAssigned, repositoryPrivate } from './schema.ts'
import { type Preview, type PreviewSetting, Release, type ReleaseSetting, type SettingPair } from './shapes/schema.ts'
import { findNewest, isNameTaken, type ReleaseIdentity, type ReleaseRow } from './sql.ts'
import { toScores } from './stats.ts'

export type Publisher = KeyCaller['workspace']
export type ReleasePreviewDeps = { publicOwners: PublicOwners }

/** Current state of a repository: its results and the release that is public. */
export type ReleaseContext = {
  repository: RepositoryRow
  publisher: Publisher
  facts: ReleaseFacts
  head: ReleaseRow | undefined
}

export async function loadReleaseContext(
  db: Db,
  repository: RepositoryRow,
  publisher: Publisher,
): Promise<ReleaseContext> {
  const newest = await findNewest(db, repository.key)
  const head = newest?.withdrawn_at === null ? newest : undefined
  return { repository, publisher, facts: await loadFacts(db, repository.key), head }
}

export async function previewRelease(
  deps: ReleasePreviewDeps & { db: Db },
  context: ReleaseContext,
  settingIds?: readonly string[],
): Promise<Preview> {
  const chosen = selectResults(context.facts.results, settingIds)
  return buildPreview(context, chosen, await listBlockers(deps, context))
}

/** Selects publishable settings: the given ones, or all. */
export function selectResults(
  results: readonly SettingResult[],
  settingIds: readonly string[] | undefined,
): SettingResult[] {
  if (!settingIds) return results.filter(({ reason }) => reason === undefined)
  const knownIds = new Set(results.map(({ id }) => id))
  const errors = settingIds
    .filter((id) => !knownIds.has(id))
    .map((id) => ({ pointer: '/query/setting', code: 'unknown_setting', message: `Unknown setting ${id}` }))
  if (errors[0]) throw new Problem(invalidRequest, errors[0].message, { errors })
  return results.filter(({ id, reason }) => settingIds.includes(id) && reason === undefined)
}

/** Lists the reasons why the results of a repository cannot be published now. */
export async function listBlockers(
  { db, publicOwners }: ReleasePreviewDeps & { db: Db },
  { repository, publisher, facts }: ReleaseContext,
): Promise<Preview['blockers']> {
  const blockers: Preview['blockers'] = []
  if (repository.visibility !== 'public')
    blockers.push({ code: repositoryPrivate.code, message: explainNotPublic(repository) })
  const isOnlyWorkspace = publisher.login === LOCAL && !(await hasSeveralWorkspaces(db))
  if (!mayPublish(repository, publisher.login, { publicOwners, isOnlyWorkspace }))
    blockers.push({ code: ownerNotAssigned.code, message: explainNotAssigned(repository.owner) })
  if (await isNameTaken(db, toReleaseIdentity(repository)))
    blockers.push({ code: nameTaken.code, message: explainNameTaken(repository) })
  if (facts.results.every(({ reason }) => reason !== undefined))
    blockers.push({ code: 'no_results', message: 'No setting has publishable results.' })
  return blockers
}

export const explainNotPublic = (repository: RepositoryRow): string =>
  `Only results of public repositories can be published. ${explainHowToMakePublic(repository)}`

const explainHowToMakePublic = (repository: RepositoryRow): string =>
  repository.source_kind === 'git'
    ? `If ${fullNameOf(repository)} is public, declare it: assay repos connect ${fullNameOf(repository)} --public --git ${repository.url ?? '<address>'}`
    : `${fullNameOf(repository)} is private on its code host. Make it public there, then publish again.`

export const explainNotAssigned = (owner: string): string =>
  `The operator has not assigned the owner ${owner} to this workspace (ASSAY_PUBLIC_OWNERS).`

/** Identifies a repository across workspaces. Every workspace has a row of its own for it. */
export const toReleaseIdentity = ({ source_kind, host, id, owner, name }: RepositoryRow): ReleaseIdentity => ({
  source_kind,
  host,
  repository_id: id,
  owner,
  name,
})

export const explainNameTaken = (repository: RepositoryRow): string =>
  `Another repository is public as ${fullNameOf(repository)}. Withdraw its release first, or connect this repository under another name.`

function buildPreview(
  { repository, publisher, facts, head }: ReleaseContext,
  chosen: SettingResult[],
  blockers: Preview['blockers'],
): Preview {
  const content = buildContent(chosen)
  const approved = facts.tasks.map(({ digest }) => digest)
  return {
    repository: { id: repository.id, fullName: fullNameOf(repository), visibility: repository.visibility },
    publisher: { login: publisher.login, kind: publisher.kind },
    head: head?.id ?? null,
    fingerprint: facts.fingerprint,
    tasks: content.tasks.length,
    settings: facts.results.map((result) => toPreviewSetting(result, content, listTasks(chosen))),
    frontier: content.frontier,
    pairs: comparePairs(chosen, content.frontier),
    disclosure: buildDisclosure(facts.results, chosen, approved, facts.run),
    blockers,
    changes: diffAgainstHead(head, content.settings),
  }
}

export const fullNameOf = ({ owner, name }: { owner: string; name: string }): string => `${owner}/${name}`

function toPreviewSetting(result: SettingResult, content: ReleaseContent, tasks: readonly string[]): PreviewSetting {
  const published = content.settings.find(({ id }) => id === result.id)
  const micros = sumCostMicros(result)
  const passed = countPassed(result)
  const tasksWithResult = result.cells.length
  return {
    key: result.id,
    ...toSettingNames(result),
    tasks: tasksWithResult,
    passed,
    accuracy: tasksWithResult === 0 ? null : (100 * passed) / tasksWithResult,
    costPerTaskUsd: micros === null ? null : averageUsd(micros, tasksWithResult),
    totalCostUsd: micros === null ? null : toUsd(micros),
    onFrontier: content.frontier.includes(result.id),
    isolation: result.isolation,
    stats: published?.stats ?? null,
    selected: published !== undefined,
    complete: isComplete(result, tasks),
    errored: result.errored,
    voided: result.voided,
    publishable: result.reason === undefined,
    reason: result.reason,
  }
}

function comparePairs(chosen: readonly SettingResult[], frontier: readonly string[]): SettingPair[] {
  const onFrontier = frontier.flatMap((id) => chosen.filter((each) => each.id === id))
  const scores = alignScores(onFrontier.map(toScores))
  return scores.flatMap((first, index) =>
    scores.slice(index + 1).flatMap((second, offset): SettingPair[] => {
      const estimate = estimateDifference(first, second)
      const [a, b] = [frontier[index], frontier[index + 1 + offset]]
      if (!estimate || a === undefined || b === undefined) return []
      const { tasks, mean, low, high, wins, losses, ties } = estimate
      return [{ a, b, tasks, difference: 100 * mean, low: 100 * low, high: 100 * high, wins, losses, ties }]
    }),
  )
}

function diffAgainstHead(head: ReleaseRow | undefined, settings: readonly ReleaseSetting[]): Preview['changes'] {
  const before = new Map(
    head ? parseDocument(head).settings.map((setting) => [setting.id, toComparedNumbers(setting)]) : [],
  )
  const now = new Map(settings.map((setting) => [setting.id, toComparedNumbers(setting)]))
  return {
    added: [...now.keys()].filter((id) => !before.has(id)),
    removed: [...before.keys()].filter((id) => !now.has(id)),
    moved: [...now].filter(([id, numbers]) => before.has(id) && before.get(id) !== numbers).map(([id]) => id),
  }
}

const toComparedNumbers = ({ tasks, passed, totalCostUsd, onFrontier }: ReleaseSetting): string =>
  JSON.stringify([tasks, passed, totalCostUsd, onFrontier])

export const parseDocument = ({ document }: Pick<ReleaseRow, 'document'>): Release =>
  Release.parse(JSON.parse(document))

/** Maps repository owners to workspace logins. Undefined if the operator configured nothing. */
type PublicOwners = ReadonlyMap<string, string> | undefined

/**
 * Returns true if the workspace may publish under the repository's owner. An assigned owner belongs to its workspace on every
 * host. GitHub vouches for all other owners. For plain git and other code hosts the owner is unverified, so the operator
 * assigns it; a single workspace needs no assignment.
 */
export function mayPublish(
  { source_kind, host, owner }: Pick<RepositoryRow, 'source_kind' | 'host' | 'owner'>,
  login: string,
  { publicOwners, isOnlyWorkspace }: { publicOwners: PublicOwners; isOnlyWorkspace: boolean },
): boolean {
  const assigned = publicOwners?.get(owner.toLowerCase())
  if (assigned !== undefined) return assigned.toLowerCase() === login.toLowerCase()
  if (source_kind === 'github' && host === GITHUB) return true
  return publicOwners === undefined && isOnlyWorkspace
}
