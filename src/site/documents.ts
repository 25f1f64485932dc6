import type { Db } from '../platform/db/db.ts'
import { notFound, Problem } from '../platform/problem.ts'
import type { Release } from '../releases/shapes/schema.ts'
import { listPublishedLines, renderCards, renderHistory, renderRelease } from '../results/results.ts'
import { listResults, readHistory, readPublicRelease } from '../results/schema.ts'
import type { RepositoryName } from '../results/update-results.ts'
import { smallestDifference } from '../statistics/accuracy.ts'
import { resultsWithdrawn } from './schema.ts'

const HISTORY_MAX = 50

export async function loadCards(db: Db, q: string | undefined) {
  return listResults.answers[200].parse(JSON.parse(await renderCards(db, { q }))).cards
}

async function loadHistory(db: Db, repository: RepositoryName) {
  const text = await renderHistory(db, repository, { limit: HISTORY_MAX })
  return readHistory.answers[200].parse(JSON.parse(text)).releases
}

/** Loads the lines of a repository and the selected one. Results that were all withdrawn are gone (410). */
export async function loadRepository(db: Db, repository: RepositoryName, publisher: string | undefined) {
  const lines = await listPublishedLines(db, repository)
  const history = await loadHistory(db, repository)
  if (lines.length === 0) throw toWithdrawnProblem(repository, history)
  const login = publisher?.toLowerCase()
  const selected = lines.find(({ card }) => login === undefined || card.publisher.login.toLowerCase() === login)
  if (!selected)
    throw new Problem(notFound, `${publisher} has not published results for ${repository.owner}/${repository.name}.`)
  return { lines, selected, history, visibleDifference: computeVisibleDifference(selected.release) }
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

/** Loads any release of a repository, also a withdrawn one, and the history around it. */
export async function loadRelease(db: Db, repository: RepositoryName, releaseId: string) {
  const release = readPublicRelease.answers[200].parse(JSON.parse(await renderRelease(db, repository, releaseId)))
  const history = await loadHistory(db, repository)
  return { release, history, visibleDifference: computeVisibleDifference(release) }
}

/** Returns the smallest visible difference in points, as in a comparison. Undefined for fewer than two settings. */
function computeVisibleDifference({ settings }: Release): number | undefined {
  if (settings.length < 2) return undefined
  const tasks = Math.min(...settings.map((setting) => setting.tasks))
  const attempts = Math.min(...settings.map(({ stats: { ci95 } }) => (ci95 ? ci95.trials / ci95.tasks : 1)))
  return tasks === 0 ? undefined : smallestDifference(tasks, attempts)
}
