import { html } from 'hono/html'
import type { Comparison, ComparisonMatrix, ComparisonTrial } from '../../src/comparisons/shapes/schema.ts'
import type { ComparisonPair } from '../../src/comparisons/statistics/schema.ts'
import { orderSettings, toCell } from '../app/comparisons/map-model.ts'
import { createSettingNamer, isControl, listFrontier, nameSetting, STATE_NAMES } from '../app/comparisons/text.ts'
import { drawFrontierChart } from '../components/chart.ts'
import { formatCount, formatInterval, type Html, percent, plural, renderDate, usd } from '../components/format.ts'
import { renderDisplayText, renderExportPage, toDisplayText } from './layout.ts'
import { renderPairTable } from './pair-page.ts'

type ExportedComparison = {
  comparison: Comparison
  matrix: ComparisonMatrix
  pairs: readonly ComparisonPair[]
  /** All trials, or the first ones if there are too many. */
  trials: readonly ComparisonTrial[]
  /** Paths of the pages of pairs, by `toPairKey`. */
  pairFiles: ReadonlyMap<string, string>
}

export const toTrialFile = (trialId: string): string => `trials/${trialId}.html`

/** Renders the first page of an export: the answer, then the evidence. */
export function renderComparisonPage(exported: ExportedComparison): string {
  const { comparison, pairs, pairFiles } = exported
  const { scope, state, answer, createdAt, trials, costUsd } = comparison
  const scopeName = scope.kind === 'benchmark' ? `${scope.datasetOrg}/${scope.dataset}` : `${scope.owner}/${scope.name}`
  const content = html`<section><h1 class="where"><strong>${renderDisplayText(scopeName)}</strong> <span class="muted">comparison of ${renderDate(createdAt)}</span> <span class="chip">${STATE_NAMES[state]}</span></h1>
<p class="answer">${answer ? toDisplayText(answer.text, 2000) : 'The comparison has no answer yet.'}</p>
<p class="small muted">${plural(comparison.settings.length, 'setting')} on ${plural(exported.matrix.tasks.length, 'task')}, ${plural(trials.total, 'trial')}: ${trials.passed} passed, ${trials.failed} failed, ${trials.errored} without a result. Spent ${usd(costUsd)}.</p></section>
${renderChart(comparison)}
<section class="card panel" aria-labelledby="settings-title"><h2 id="settings-title">Settings</h2>${renderSettings(comparison)}</section>
<section class="card panel" aria-labelledby="map-title"><h2 id="map-title">Map of trials</h2>
<p class="small muted">✓ passed · ◐ some attempts passed · × failed · ! no result · ● running · · waiting. Each links to its first trial.</p>
${renderMap(exported)}</section>
<section class="card panel" aria-labelledby="pairs-title"><h2 id="pairs-title">Pairs</h2>${renderPairTable(comparison, pairs, pairFiles)}</section>
${renderFailures(exported)}`
  return renderExportPage({ title: toDisplayText(scopeName, 100), root: '', content })
}

function renderChart(comparison: Comparison): Html {
  const candidates = comparison.settings.filter((setting) => !isControl(setting))
  const frontier = listFrontier(candidates)
  const settings = candidates.flatMap(({ accuracy, costPerTaskUsd, ...setting }) =>
    accuracy === null || costPerTaskUsd === null
      ? []
      : [{ ...setting, accuracy, costPerTaskUsd, onFrontier: frontier.includes(setting.id) }],
  )
  if (settings.length === 0) return html``
  const pricesAt = comparison.finishedAt ?? comparison.createdAt
  return html`<section class="card panel" aria-labelledby="chart-title"><div class="panel-head"><h2 id="chart-title">Accuracy and cost</h2><span class="chip gold">frontier</span><span class="chip">95 % intervals</span></div>
${drawFrontierChart({ settings, frontier, prices: { at: pricesAt } })}</section>`
}

function renderSettings({ settings, frontier }: Comparison): Html {
  const rows = settings.toSorted((a, b) => (b.accuracy ?? -1) - (a.accuracy ?? -1))
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Table of settings"><table><thead><tr><th scope="col">Setting</th><th scope="col" class="number">Solved</th><th scope="col" class="number">95 %</th><th scope="col" class="number">Tasks</th><th scope="col" class="number">Per task</th><th scope="col">Frontier</th></tr></thead>
<tbody>${rows.map((setting) => {
    const { accuracy, stats, passed, tasks, costPerTaskUsd, id } = setting
    return html`<tr><th scope="row">${renderDisplayText(nameSetting(setting))}</th><td class="number">${accuracy === null ? '–' : percent(accuracy)}</td><td class="number">${stats.ci95 ? formatInterval(stats.ci95) : '–'}</td><td class="number">${passed} of ${tasks}</td><td class="number">${costPerTaskUsd === null ? '–' : usd(costPerTaskUsd)}</td><td>${frontier.includes(id) ? 'yes' : ''}</td></tr>`
  })}</tbody></table></div>`
}

const STATE_SYMBOLS = {
  passed: '✓',
  failed: '×',
  mixed: '◐',
  errored: '!',
  running: '●',
  queued: '·',
  canceled: '–',
  none: '',
} as const

/** Renders tasks × settings as a table with a row per task. The legend above it numbers the columns. */
function renderMap({ comparison, matrix, trials }: ExportedComparison): Html {
  const settingsById = new Map(comparison.settings.map((setting) => [setting.id, setting]))
  const columns = orderSettings(matrix.settings, (id) => settingsById.get(id)?.accuracy ?? null)
  const firstTrialIds = new Map(
    trials.filter(({ attempt }) => attempt === 1).map((trial) => [`${trial.task.name} ${trial.settingId}`, trial.id]),
  )
  const nameColumn = (position: number) => {
    const setting = settingsById.get(matrix.settings[position] ?? '')
    return setting ? nameSetting(setting) : ''
  }
  const renderCell = (task: number, setting: number): Html => {
    const { state } = toCell(matrix, task, setting)
    const trialId = firstTrialIds.get(`${matrix.tasks[task]?.name} ${matrix.settings[setting]}`)
    const label = html`<span aria-hidden="true">${STATE_SYMBOLS[state]}</span><span class="hidden">${state}</span>`
    return html`<td class="cell ${state}">${trialId ? html`<a href="${toTrialFile(trialId)}">${label}</a>` : label}</td>`
  }
  return html`<ol class="legend small">${columns.map((position) => html`<li>${renderDisplayText(nameColumn(position))}</li>`)}</ol>
<div class="scroll" tabindex="0" role="region" aria-label="Tasks and settings"><table class="map"><thead><tr><th scope="col">Task</th>${columns.map((_, index) => html`<th scope="col">${index + 1}</th>`)}</tr></thead>
<tbody>${matrix.tasks.map(
    ({ name }, task) =>
      html`<tr><th scope="row">${renderDisplayText(name, 80)}</th>${columns.map((setting) => renderCell(task, setting))}</tr>`,
  )}</tbody></table></div>${
    trials.length < comparison.trials.total
      ? html`<p class="small muted">The export contains pages of the first ${formatCount(trials.length)} of ${formatCount(comparison.trials.total)} trials.</p>`
      : ''
  }`
}

const FAILURES_SHOWN_MAX = 500

/** Renders the trials that did not pass, with their explanations. */
function renderFailures({ comparison, trials }: ExportedComparison): Html {
  const nameOf = createSettingNamer(comparison.settings)
  const failed = trials.filter(({ state }) => state === 'failed' || state === 'errored')
  if (failed.length === 0) return html``
  return html`<section class="card panel" aria-labelledby="failures-title"><h2 id="failures-title">${plural(failed.length, 'trial')} that did not pass</h2>
<ul class="plain-list">${failed
    .slice(0, FAILURES_SHOWN_MAX)
    .map(
      ({ id, task, settingId, explanation, error }) =>
        html`<li><a href="${toTrialFile(id)}">${renderDisplayText(task.name, 80)}</a> <span class="muted small">${renderDisplayText(nameOf(settingId))}</span><br>${renderDisplayText(explanation ?? error ?? 'No reason was recorded.', 300)}</li>`,
    )}</ul>${failed.length > FAILURES_SHOWN_MAX ? html`<p class="small muted">The first ${FAILURES_SHOWN_MAX} are listed; the map has all of them.</p>` : ''}</section>`
}
