import { html } from 'hono/html'
import type { Release } from '../../src/releases/shapes/schema.ts'
import type { HistoryEntry } from '../../src/results/schema.ts'
import { drawFrontierChart } from './chart.ts'
import { type Html, plural, renderDate, withQuery } from './format.ts'
import type { Site } from './layout.ts'
import { findRole, type PickedSetting, renderAnswer, renderPicks } from './picks.ts'
import { renderEvidence, renderHistory, renderUse } from './release-sections.ts'
import { renderSettingsTable, type TableView } from './settings-table.ts'

type ReleaseBodyOptions = {
  release: Release
  picks: readonly PickedSetting[]
  history: readonly HistoryEntry[]
  visibleDifference: number | undefined
  /** Costs at today's prices, if the reader asked for them. */
  repriced?: { release: Release; unconverted: readonly string[] } | undefined
  path: string
  view: TableView
  /** The publisher's line, if this page shows its newest release. The API serves the default line without a publisher. */
  line?: { isDefault: boolean } | undefined
  /** A withdrawn release recommends nothing. */
  isWithdrawn?: boolean
}

/** Renders a release: the answer, then the evidence. */
export function renderReleaseBody(site: Site, options: ReleaseBodyOptions): Html {
  const { release, picks, history, visibleDifference, repriced, path, view, line, isWithdrawn } = options
  const shown = repriced?.release ?? release
  const recommended = isWithdrawn ? undefined : findRole(picks, 'best-value')?.id
  // Gold is the colour of the frontier and the recommendation, which withdrawn results do not have.
  const panel = isWithdrawn ? 'card panel no-gold' : 'card panel'
  return html`${isWithdrawn ? '' : html`${renderAnswer(release, picks)}${renderPicks(release, picks)}`}
<section class="${panel}" aria-labelledby="chart-title"><div class="panel-head"><h2 id="chart-title">Accuracy and cost</h2>${isWithdrawn ? html`<span class="chip">withdrawn</span>` : html`<span class="chip gold">frontier</span>`}<span class="chip">95 % intervals</span>${renderPriceChoice(options)}</div>
${drawFrontierChart(shown, { isToday: repriced !== undefined, recommended })}
<p class="note small muted">${renderCaveat(release, visibleDifference)}${repriced ? renderRepriced(repriced.unconverted.length) : ''}</p></section>
<section class="${panel}" aria-labelledby="table-title"><div class="panel-head"><h2 id="table-title">All settings</h2></div>
${renderSettingsTable(shown.settings, { path, view, recommended })}</section>
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

const renderRepriced = (unconverted: number): string =>
  ` Costs and frontier at today’s list prices; the recommendation above uses the prices of the release.${
    unconverted === 0 ? '' : ` The cost of ${plural(unconverted, 'setting')} could not be converted and is unchanged.`
  }`

function renderCaveat({ tasks, disclosure: { attempts } }: Release, visibleDifference: number | undefined): string {
  const isUniform = attempts.min === attempts.max
  const count = isUniform ? plural(attempts.min, 'attempt') : `${attempts.min} to ${attempts.max} attempts`
  const uniformAttempts = attempts.max === 2 ? 'both' : `all ${attempts.max}`
  const used = isUniform ? uniformAttempts : 'all of them'
  const dots =
    attempts.max === 1
      ? ''
      : ` The dot counts the first attempt. The interval uses ${used}, so the dot need not be in its middle.`
  return `${plural(tasks, 'task')}, ${count} each${describePower(visibleDifference)}${dots}`
}

/** Says which differences between two settings the number of tasks is enough for. */
function describePower(visibleDifference: number | undefined): string {
  if (visibleDifference === undefined) return '.'
  if (visibleDifference >= 100) return ': too few to detect differences between two settings.'
  return `: enough to detect differences of about ${plural(Math.round(visibleDifference), 'point')} between two settings, not smaller ones.`
}
