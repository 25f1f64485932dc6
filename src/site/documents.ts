import type { Prices } from '../catalog/model.ts'
import { listPublicModels } from '../catalog/models.ts'
import type { Db } from '../platform/db/db.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { toMicros } from '../platform/usd.ts'
import { loadReleaseContext, type Publisher } from '../releases/preview.ts'
import { buildPreviewRelease } from '../releases/publish.ts'
import { listHeads, listHistory, loadOwnerRelations } from '../releases/releases.ts'
import type { Release, ReleaseSetting } from '../releases/shapes/schema.ts'
import type { RepositoryRow } from '../repos/repos.ts'
import { buildLines, toHistoryEntry } from '../results/cards.ts'
import {
  listCards,
  listPublishedLines,
  listReleasePicks,
  type RepositoryName,
  renderHistory,
  renderRelease,
  searchLines,
} from '../results/results.ts'
import { readHistory, readPublicRelease } from '../results/schema.ts'
import { listFrontier } from '../statistics/frontier.ts'
import { computeSmallestDifference } from '../statistics/intervals.ts'
import {
  type AcrossKind,
  type AcrossRow,
  hasSettingPage,
  isPublicSetting,
  type ListedCard,
  type RepositoryView,
  resultsWithdrawn,
} from './schema.ts'

const HISTORY_MAX = 50
/** Maximum number of lines that a page across repositories shows, the newest ones. */
const ACROSS_LINES_MAX = 300

async function loadHistory(db: Db, repository: RepositoryName) {
  const text = await renderHistory(db, repository, { limit: HISTORY_MAX })
  return readHistory.answers[200].parse(JSON.parse(text)).releases
}

/** Loads the lines of a repository and the selected one. Results that were all withdrawn are gone (410). */
export async function loadRepository(db: Db, repository: RepositoryName, { publisher, prices }: RepositoryView) {
  const lines = await listPublishedLines(db, repository)
  const history = await loadHistory(db, repository)
  if (lines.length === 0) throw toWithdrawnProblem(repository, history)
  const login = publisher?.toLowerCase()
  const selected = lines.find(({ card }) => login === undefined || card.publisher.login.toLowerCase() === login)
  if (!selected)
    throw new Problem(notFound, `${publisher} has not published results for ${repository.owner}/${repository.name}.`)
  return { lines, selected, history, ...deriveFigures(selected.release, prices) }
}

type PreviewSelection = { repository: RepositoryRow; publisher: Publisher; settings: readonly string[] | undefined }

/** Loads the documents of a repository as they would be after these settings were published. */
export async function loadPreview(db: Db, { repository, publisher, settings }: PreviewSelection) {
  const { owner, name } = repository
  const context = await loadReleaseContext(db, repository, publisher)
  const { release, picks } = await buildPreviewRelease(db, context, settings)
  const { isOwn, endorsed } = (await loadOwnerRelations(db, owner, name))(publisher.id)
  const others = (await listHeads(db, owner, name)).filter(({ row }) => row.workspace_id !== publisher.id)
  const lines = buildLines([...others, { release, picks, isOwn, endorsed }], `${owner}/${name}`).map(
    ({ line, card }) => ({ ...line, card }),
  )
  const selected = lines.find(({ card }) => card.releaseId === release.releaseId)
  if (!selected) throw new Error('The preview has no line')
  const { items } = await listHistory(db, repository, { limit: HISTORY_MAX })
  const history = [{ ...release, withdrawn: null }, ...items].map(toHistoryEntry)
  return { lines, selected, history, ...deriveFigures(selected.release, undefined) }
}

function toWithdrawnProblem(
  { owner, name }: RepositoryName,
  history: Awaited<ReturnType<typeof loadHistory>>,
): Problem {
  const newest = history.find(({ withdrawn }) => withdrawn !== null)
  if (!newest?.withdrawn) return new Problem(notFound, `No published results for ${owner}/${name}.`)
  const { at, reason } = newest.withdrawn
  const detail = `${newest.publisher.login} withdrew the results of ${owner}/${name} on ${at.slice(0, 10)}: ${reason}`
  return new Problem(resultsWithdrawn, detail, {
    members: { releaseId: newest.releaseId, repository: `${owner}/${name}` },
  })
}

const readReleaseDocument = async (db: Db, repository: RepositoryName, releaseId: string) =>
  readPublicRelease.answers[200].parse(JSON.parse(await renderRelease(db, repository, releaseId)))

/** Loads any release of a repository, also a withdrawn one, and the history around it. */
export async function loadRelease(
  db: Db,
  repository: RepositoryName,
  { releaseId, prices }: { releaseId: string; prices: RepositoryView['prices'] },
) {
  const release = await readReleaseDocument(db, repository, releaseId)
  const history = await loadHistory(db, repository)
  const picks = await listReleasePicks(db, repository, releaseId)
  return { release, picks, history, ...deriveFigures(release, prices) }
}

const deriveFigures = (release: Release, prices: RepositoryView['prices']) => ({
  visibleDifference: computeVisibleDifference(release),
  repriced: prices === 'today' ? repriceToday(release) : undefined,
})

/** Loads two releases of a repository. By default the newest release and the one of the same publisher before it. */
export async function loadReleasePair(
  db: Db,
  repository: RepositoryName,
  view: { from?: string | undefined; to?: string | undefined },
) {
  const history = await loadHistory(db, repository)
  const to = history.find(({ releaseId }) => releaseId === view.to?.toLowerCase()) ?? history[0]
  const older = history.slice(to ? history.indexOf(to) + 1 : 0)
  const before = older.find(({ publisher }) => publisher.login === to?.publisher.login)
  const from = history.find(({ releaseId }) => releaseId === view.from?.toLowerCase()) ?? before ?? to
  if (!to || !from) throw new Problem(notFound, `No published results for ${repository.owner}/${repository.name}.`)
  const picks = {
    from: await listReleasePicks(db, repository, from.releaseId),
    to: await listReleasePicks(db, repository, to.releaseId),
  }
  const hasPicks = picks.from.length > 0 && picks.to.length > 0
  return {
    from: await readReleaseDocument(db, repository, from.releaseId),
    to: await readReleaseDocument(db, repository, to.releaseId),
    recommended: hasPicks ? { from: findRecommended(picks.from), to: findRecommended(picks.to) } : undefined,
    history,
  }
}

const findRecommended = (picks: readonly { id: string; roles: string[] }[]): string | undefined =>
  picks.find(({ roles }) => roles.includes('best-value'))?.id

/** Loads the results of a model, a harness or a setting on all public repositories. */
export async function loadAcross(db: Db, kind: AcrossKind, id: string): Promise<AcrossRow[]> {
  const lines = await searchLines(db, id, ACROSS_LINES_MAX)
  const hasPage = kind === 'setting' ? hasSettingPage : isPublicSetting
  const rows = lines.flatMap(({ release, endorsed, card: { defaultLine, picks } }) => {
    const { repository, publisher, releasedAt, settings } = release
    const best = picks.find(({ roles }) => roles.includes('most-accurate'))?.setting
    const facts = { repository, publisher, releasedAt, endorsed, defaultLine, settings: settings.length, best }
    return settings
      .filter((setting) => hasPage(setting) && ACROSS_IDS[kind](setting) === id)
      .map((setting): AcrossRow => ({ ...facts, setting }))
  })
  if (rows.length === 0) throw new Problem(notFound, `No published results of the ${kind} ${id}.`)
  return rows
}

/** Returns the id by which each kind of page identifies a setting. */
const ACROSS_IDS: Record<AcrossKind, (setting: Release['settings'][number]) => string> = {
  model: ({ model }) => model.catalogId,
  harness: ({ harness }) => harness,
  setting: ({ id }) => id,
}

/** Loads the results of one publisher, newest first. */
export async function loadPublisher(db: Db, login: string): Promise<ListedCard[]> {
  const cards = (await listCards(db, login)).filter(
    ({ card }) => card.publisher.login.toLowerCase() === login.toLowerCase(),
  )
  if (cards.length === 0) throw new Problem(notFound, `${login} has not published results.`)
  return cards
}

/** Returns the smallest visible difference in points, as in a comparison. Undefined for fewer than two settings. */
function computeVisibleDifference({ settings }: Release): number | undefined {
  if (settings.length < 2) return undefined
  const tasks = Math.min(...settings.map((setting) => setting.tasks))
  const attempts = Math.min(...settings.map(({ stats: { ci95 } }) => (ci95 ? ci95.trials / ci95.tasks : 1)))
  return tasks === 0 ? undefined : computeSmallestDifference(tasks, attempts)
}

type TaskUsage = NonNullable<ReleaseSetting['stats']['usagePerTask']>

/** A release with costs at other prices, and the settings whose cost could not be converted. */
type RepricedRelease = { release: Release; unconverted: string[] }

const repriceToday = (release: Release): RepricedRelease =>
  reprice(release, new Map(listPublicModels(new Date()).map(({ catalogId, prices }) => [catalogId, prices])))

/**
 * Converts the costs of a release to other prices and computes its frontier again. Each cost is multiplied by the new price of
 * the setting's mean tokens divided by their old price, so that a cost with unchanged prices stays exact. Frontier
 * probabilities would need the results of every task and are left out.
 */
export function reprice(release: Release, prices: ReadonlyMap<string, Prices>): RepricedRelease {
  const converted = release.settings.map((setting) => {
    const factor = findPriceFactor(release, setting, prices.get(setting.model.catalogId))
    return { id: setting.id, factor, setting: factor === undefined ? setting : scaleCost(setting, factor) }
  })
  const complete = converted.filter(({ setting }) => setting.stats.coverage === 100)
  const ids = listFrontier(complete.map(({ setting }) => toPoint(setting)))
  return {
    release: {
      ...release,
      frontier: ids,
      settings: converted.map(({ setting }) => ({
        ...setting,
        onFrontier: ids.includes(setting.id),
        stats: { ...setting.stats, frontierProbability: null },
      })),
    },
    unconverted: converted.flatMap(({ id, factor }) => (factor === undefined ? [id] : [])),
  }
}

/**
 * Returns the price of the setting's tokens now, divided by their price in the release. Undefined if either is
 * unknown.
 */
function findPriceFactor({ prices }: Release, setting: ReleaseSetting, now: Prices | undefined): number | undefined {
  const { usagePerTask } = setting.stats
  const before = prices.models.findLast(({ catalogId }) => catalogId === setting.model.catalogId)?.prices
  if (setting.custom || !usagePerTask || !now || !before) return undefined
  const costBefore = toCost(usagePerTask, before)
  return costBefore > 0 ? toCost(usagePerTask, now) / costBefore : undefined
}

type Rates = Pick<Prices, 'input' | 'output'> & { cacheRead?: number | undefined; cacheWrite5m?: number | undefined }

const toCost = ({ input, cacheRead, cacheWrite, output }: TaskUsage, rates: Rates): number =>
  input * rates.input +
  cacheRead * (rates.cacheRead ?? rates.input) +
  cacheWrite * (rates.cacheWrite5m ?? rates.input) +
  output * rates.output

const scaleCost = (setting: ReleaseSetting, factor: number): ReleaseSetting => ({
  ...setting,
  costPerTaskUsd: setting.costPerTaskUsd * factor,
  totalCostUsd: setting.totalCostUsd * factor,
})

const toPoint = ({ id, tasks, passed, totalCostUsd }: ReleaseSetting) => ({
  id,
  tasks,
  passed,
  micros: toMicros(totalCostUsd),
})
