import { html } from 'hono/html'
import type { Release } from '../../src/releases/shapes/schema.ts'
import type { HistoryEntry } from '../../src/results/schema.ts'
import { drawFrontierChart } from './chart.ts'
import { type Html, plural, renderDate, withQuery } from './format.ts'
import type { Site } from './layout.ts'
import { findSettingByRole, type PickedSetting, renderAnswer, renderPicks } from './picks.ts'
import { renderEvidence, renderHistory, renderUse } from './release-sections.ts'
import { renderSettingsTable, type TableView } from './settings-table.ts'

type ReleaseBodyOptions = {
  release: Release
  picks: readonly PickedSetting[]
  history: readonly HistoryEntry[]
  visibleDifference: number | undefined
  /** The release with costs at today's prices, if the reader chose them, and settings whose cost is unchanged. */
  repriced?: { release: Release; unconverted: readonly string[] } | undefined
  /** Path of the page, for links to other views of it. */
  path: string
  view: TableView
  /** The publisher's line, if this page shows its newest release. Links to the default line need no publisher. */
  line?: { isDefault: boolean } | undefined
  /** A withdrawn release recommends nothing. */
  isWithdrawn?: boolean
}

/** Renders a release: the answer, then the evidence. */
export function renderReleaseBody(site: Site, options: ReleaseBodyOptions): Html {
  const { release, picks, history, visibleDifference, repriced, path, view, line, isWithdrawn } = options
  const shownRelease = repriced?.release ?? release
  const recommendedId = isWithdrawn ? undefined : findSettingByRole(picks, 'best-value')?.id
  // Gold is the colour of the frontier and the recommendation, which withdrawn results do not have.
  const panelClass = isWithdrawn ? 'card panel no-gold' : 'card panel'
  return html`${isWithdrawn ? '' : html`${renderAnswer(release, picks)}${renderPicks(release, picks)}`}
<section class="${panelClass}" aria-labelledby="chart-title"><div class="panel-head"><h2 id="chart-title">Accuracy and cost</h2>${isWithdrawn ? html`<span class="chip">withdrawn</span>` : html`<span class="chip gold">frontier</span>`}<span class="chip">95 % intervals</span>${renderPriceChoice(options)}</div>
${drawFrontierChart(shownRelease, { usesTodaysPrices: repriced !== undefined, recommendedId })}
<p class="note small muted">${describePrecision(release, visibleDifference)}${repriced ? describeRepricing(repriced.unconverted.length) : ''}</p></section>
<section class="${panelClass}" aria-labelledby="table-title"><div class="panel-head"><h2 id="table-title">All settings</h2></div>
${renderSettingsTable(shownRelease.settings, { path, view, recommendedId })}</section>
${renderEvidence(release)}
${renderUse(site, release, line)}
${renderHistory(release.repository.fullName, history, release.releaseId)}`
}

/** Renders the choice between the prices of the release and those of today, as links. */
function renderPriceChoice({ release, path, view }: ReleaseBodyOptions): Html {
  const { at } = release.prices
  const link = (prices: 'today' | undefined, label: Html) =>
    view.prices === prices
      ? html`<span aria-current="true">${label}</span>`
      : html`<a href="${withQuery(path, { ...view, prices })}">${label}</a>`
  return html`<span class="choice small">Prices: ${link(undefined, at ? renderDate(at) : html`of the trials`)} ${link('today', html`today`)}</span>`
}

const describeRepricing = (unconvertedCount: number): string =>
  ` Costs and frontier at today’s list prices; the recommendation above uses the prices of the release.${
    unconvertedCount === 0
      ? ''
      : ` The cost of ${plural(unconvertedCount, 'setting')} could not be converted and is unchanged.`
  }`

/** Describes what the numbers of tasks and attempts allow to conclude. */
function describePrecision(
  { tasks, disclosure: { attempts } }: Release,
  visibleDifference: number | undefined,
): string {
  const isUniform = attempts.min === attempts.max
  const attemptCount = isUniform ? plural(attempts.min, 'attempt') : `${attempts.min} to ${attempts.max} attempts`
  const allAttempts = attempts.max === 2 ? 'both' : `all ${attempts.max}`
  const dotNote =
    attempts.max === 1
      ? ''
      : ` The dot counts the first attempt. The interval uses ${isUniform ? allAttempts : 'all of them'}, so the dot need not be in its middle.`
  return `${plural(tasks, 'task')}, ${attemptCount} each${describePower(visibleDifference)}${dotNote}`
}

/** Describes which differences between two settings can be detected with this number of tasks. */
function describePower(visibleDifference: number | undefined): string {
  if (visibleDifference === undefined) return '.'
  if (visibleDifference >= 100) return ': too few to detect differences between two settings.'
  return `: enough to detect differences of about ${plural(Math.round(visibleDifference), 'point')} between two settings, not smaller ones.`
}
