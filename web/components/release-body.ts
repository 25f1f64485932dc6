import { html } from 'hono/html'
import type { Release } from '../../src/releases/shapes/schema.ts'
import type { HistoryEntry } from '../../src/results/schema.ts'
import { drawFrontierChart } from './chart.ts'
import { type Html, plural } from './format.ts'
import type { Site } from './layout.ts'
import { type PickedSetting, renderAnswer, renderPicks } from './picks.ts'
import { renderEvidence, renderHistory, renderUse } from './release-sections.ts'
import { renderSettingsTable, type TableView } from './settings-table.ts'

type ReleaseBodyOptions = {
  release: Release
  picks: readonly PickedSetting[]
  history: readonly HistoryEntry[]
  visibleDifference: number | undefined
  path: string
  view: TableView
  /** The publisher's line, if this page shows its newest release. The API serves the default line without a publisher. */
  line?: { isDefault: boolean } | undefined
}

/** Renders a release: the answer, then the evidence. */
export function renderReleaseBody(site: Site, options: ReleaseBodyOptions): Html {
  const { release, picks, history, visibleDifference, path, view, line } = options
  return html`${renderAnswer(release, picks)}
${renderPicks(release, picks)}
<section class="card panel" aria-labelledby="chart-title"><div class="panel-head"><h2 id="chart-title">Accuracy and cost</h2><span class="chip gold">frontier</span><span class="chip">95 % intervals</span></div>
${drawFrontierChart(release)}
<p class="note small muted">${renderCaveat(release, visibleDifference)}</p></section>
<section class="card panel" aria-labelledby="table-title"><div class="panel-head"><h2 id="table-title">All settings</h2></div>
${renderSettingsTable(release.settings, path, view)}</section>
${renderEvidence(release)}
${renderUse(site, release, line)}
${renderHistory(release.repository.fullName, history, release.releaseId)}`
}

function renderCaveat({ tasks, disclosure: { attempts } }: Release, visibleDifference: number | undefined): string {
  const size = `${plural(tasks, 'task')}, ${plural(attempts.min, 'attempt')} each.`
  const noise =
    visibleDifference === undefined
      ? ''
      : visibleDifference >= 100
        ? ' Too few tasks to tell two settings apart.'
        : ` Differences under ${Math.round(visibleDifference)} points are within noise.`
  return `${size}${noise} Intervals are clustered by task.`
}
