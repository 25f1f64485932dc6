import { html } from 'hono/html'
import type { PublicRelease, Release } from '../../../src/releases/shapes/schema.ts'
import type { HistoryEntry } from '../../../src/results/schema.ts'
import type { RepositoryView } from '../../../src/site/schema.ts'
import { describeDataset } from '../../components/dataset.ts'
import {
  type Html,
  percent,
  publisherPath,
  releasePath,
  renderDate,
  renderName,
  repositoryPath,
  safeText,
  withQuery,
} from '../../components/format.ts'
import { renderPage, type Site } from '../../components/layout.ts'
import { type PickedSetting, toPickedSettings } from '../../components/picks.ts'
import { renderReleaseBody } from '../../components/release-body.ts'

type ReleaseDocuments = {
  release: PublicRelease
  /** Picks of the release, chosen when it was published. */
  picks: readonly { id: string; roles: string[] }[]
  history: readonly HistoryEntry[]
  visibleDifference: number | undefined
  /** The release with today's prices, if they were requested, and the settings without such prices. */
  repriced: { release: Release; unconverted: string[] } | undefined
}

/** Renders the permanent page of one release. It never changes, except that it can be withdrawn. */
export function renderReleasePage(site: Site, documents: ReleaseDocuments, view: RepositoryView): string {
  const { release, history, visibleDifference, repriced } = documents
  const { fullName } = release.repository
  const path = releasePath(fullName, release.releaseId)
  const picks = toPickedSettings(release, documents.picks)
  const content = html`<section><h1 class="where"><a href="${repositoryPath(fullName)}">${renderName(fullName)}</a> <span class="muted">release of ${renderDate(release.releasedAt)} by <a href="${publisherPath(release.publisher.login)}">${renderName(release.publisher.login)}</a></span></h1>
${renderNotice(release, history)}</section>
${renderReleaseBody(site, { release, picks, history, visibleDifference, repriced, path, view, isWithdrawn: Boolean(release.withdrawn) })}`
  return renderPage(site, {
    title: `${safeText(fullName)}, release of ${release.releasedAt.slice(0, 10)}`,
    description: describeRelease(release, picks),
    path,
    image: `${repositoryPath(fullName)}/image.png`,
    structuredData: describeDataset(site, release),
    content,
  })
}

function describeRelease({ withdrawn, tasks }: PublicRelease, picks: readonly PickedSetting[]): string {
  if (withdrawn) return 'Withdrawn results of coding agents.'
  const best = picks.find(({ roles }) => roles.includes('most-accurate'))?.setting
  return best
    ? `${safeText(best.model.label)} solved ${percent(best.accuracy)} of ${tasks} tasks.`
    : 'Results of coding agents.'
}

/** Renders a notice if the release was withdrawn or there is a newer one. */
function renderNotice(
  { withdrawn, releaseId, repository, publisher }: PublicRelease,
  history: readonly HistoryEntry[],
): Html {
  const validReleases = history.filter((entry) => !entry.withdrawn)
  const newestOfPublisher = validReleases.find((entry) => entry.publisher.login === publisher.login)
  if (withdrawn)
    return html`<p class="note warning"><strong>Withdrawn</strong> on ${renderDate(withdrawn.at)}: ${renderName(withdrawn.reason, 1000)} <span class="muted">Do not rely on these numbers.</span> ${renderNewestLink(repository.fullName, newestOfPublisher ?? validReleases[0])}</p>`
  if (!newestOfPublisher || newestOfPublisher.releaseId === releaseId) return html``
  return html`<p class="note">There is a newer release: <a href="${releasePath(repository.fullName, newestOfPublisher.releaseId)}">${renderDate(newestOfPublisher.releasedAt)}</a>. <a href="${withQuery(`${repositoryPath(repository.fullName)}/compare`, { from: releaseId, to: newestOfPublisher.releaseId })}">What changed</a></p>`
}

const renderNewestLink = (fullName: string, entry: HistoryEntry | undefined): Html =>
  entry
    ? html`Newest valid release: <a href="${releasePath(fullName, entry.releaseId)}">${renderDate(entry.releasedAt)}</a>.`
    : html`There is no valid release of this repository.`
