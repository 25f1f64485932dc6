import { html } from 'hono/html'
import type { Release } from '../../../src/releases/shapes/schema.ts'
import type { Card, HistoryEntry, Line } from '../../../src/results/schema.ts'
import type { RepositoryView } from '../../../src/site/schema.ts'
import { describeDataset } from '../../components/dataset.ts'
import {
  type Html,
  nameHarness,
  percent,
  publisherPath,
  renderDate,
  renderName,
  repositoryPath,
  safeText,
  withQuery,
} from '../../components/format.ts'
import { renderPage, type Site } from '../../components/layout.ts'
import { toPickedSettings } from '../../components/picks.ts'
import { renderReleaseBody } from '../../components/release-body.ts'
import { findPrevious } from '../../components/release-sections.ts'

type LineWithCard = Line & { card: Card }

type RepositoryDocuments = {
  /** Lines of all publishers of the repository. */
  lines: readonly LineWithCard[]
  /** The line that the page shows. */
  selected: LineWithCard
  history: readonly HistoryEntry[]
  visibleDifference: number | undefined
  /** The release with today's prices, if they were requested, and the settings without such prices. */
  repriced: { release: Release; unconverted: string[] } | undefined
}

/** Renders the results of a repository: one publisher's line, and links to the others. */
export function renderRepositoryPage(site: Site, documents: RepositoryDocuments, view: RepositoryView): string {
  const { selected, history, visibleDifference, repriced } = documents
  const { release, card } = selected
  const { fullName } = release.repository
  const path = repositoryPath(fullName)
  const picks = toPickedSettings(
    release,
    card.picks.map(({ setting, roles }) => ({ id: setting.id, roles })),
  )
  const [firstPick] = picks
  const content = html`<section>${renderTitle(documents)}
${renderPublishers(documents, path)}</section>
${renderReleaseBody(site, { release, picks, history, visibleDifference, repriced, path, view, line: { isDefault: card.defaultLine } })}`
  return renderPage(site, {
    title: safeText(fullName),
    description: firstPick
      ? `${safeText(firstPick.setting.model.label)} with ${safeText(nameHarness(firstPick.setting.harness))} solves ${percent(firstPick.setting.accuracy)} of ${release.tasks} tasks on ${safeText(fullName)}.`
      : `Results of coding agents on ${safeText(fullName)}.`,
    path,
    image: `${repositoryPath(fullName)}/image.png`,
    structuredData: describeDataset(site, release),
    content,
  })
}

function renderTitle({ selected: { release, endorsed }, history }: RepositoryDocuments): Html {
  const { fullName } = release.repository
  const [owner = '', repositoryName = ''] = fullName.split('/')
  const previous = findPrevious(
    history,
    history.findIndex(({ releaseId }) => releaseId === release.releaseId),
  )
  const compareUrl = withQuery(`${repositoryPath(fullName)}/compare`, {
    from: previous?.releaseId,
    to: release.releaseId,
  })
  return html`<h1 class="where">${renderName(owner)} / <strong>${renderName(repositoryName)}</strong></h1>
<p class="small muted byline">published by <a href="${publisherPath(release.publisher.login)}">${renderName(release.publisher.login)}</a> ${endorsed ? html`<span class="chip">endorsed by the owner</span>` : html`<span class="chip">not endorsed by the owner</span>`} · release of ${renderDate(release.releasedAt)}${previous ? html` · <a href="${compareUrl}">what changed</a>` : ''}</p>`
}

const renderPublishers = ({ lines, selected }: RepositoryDocuments, path: string): Html =>
  lines.length < 2
    ? html``
    : html`<nav class="publishers small" aria-label="Publishers"><ul>${lines.map(({ release, card, endorsed }) => {
        const { login } = release.publisher
        const href = withQuery(path, { publisher: card.defaultLine ? undefined : login })
        return html`<li><a href="${href}" ${card === selected.card ? html`aria-current="page"` : ''}>${renderName(login)}</a> <span class="muted">${endorsed ? 'endorsed · ' : ''}${renderDate(release.releasedAt)}</span></li>`
      })}</ul></nav>`
