import { html } from 'hono/html'
import type { Comparison } from '../../src/comparisons/shapes/schema.ts'
import type { ComparisonPair, ComparisonPairWithTasks } from '../../src/comparisons/statistics/schema.ts'
import { createSettingNamer, VERDICT_NAMES } from '../app/comparisons/text.ts'
import { formatDifference, type Html, plural } from '../components/format.ts'
import { renderDisplayText, renderExportPage } from './layout.ts'

/** Returns a key that identifies a pair by its settings. */
export const toPairKey = ({ a, b }: Pick<ComparisonPair, 'a' | 'b'>): string => JSON.stringify([a, b])

/** Renders a table of pairs. `files` has the path of each pair's own page by `toPairKey`. */
export function renderPairTable(
  comparison: Comparison,
  pairs: readonly ComparisonPair[],
  files: ReadonlyMap<string, string>,
): Html {
  if (pairs.length === 0) return html`<p class="muted">No two settings have a result for the same task.</p>`
  const nameOf = createSettingNamer(comparison.settings)
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Pairs of settings"><table><thead><tr><th scope="col">A</th><th scope="col">B</th><th scope="col" class="number">A − B, points</th><th scope="col" class="number">95 %</th><th scope="col">A is</th><th scope="col" class="number">Only A</th><th scope="col" class="number">Only B</th><th scope="col">Tasks</th></tr></thead>
<tbody>${pairs.map((pair) => {
    const file = files.get(toPairKey(pair))
    const tasks = plural(pair.tasks, 'task')
    return html`<tr><td>${renderDisplayText(nameOf(pair.a))}</td><td>${renderDisplayText(nameOf(pair.b))}</td><td class="number">${pair.difference ? formatDifference(Math.round(pair.difference.points)) : '–'}</td><td class="number">${formatRange(pair)}</td><td>${VERDICT_NAMES[pair.verdict]}</td><td class="number">${pair.wonByA}</td><td class="number">${pair.wonByB}</td><td>${file ? html`<a href="${file}">${tasks}</a>` : tasks}</td></tr>`
  })}</tbody></table></div>`
}

const formatRange = ({ difference }: ComparisonPair): string =>
  difference
    ? `${formatDifference(Math.round(difference.low))} to ${formatDifference(Math.round(difference.high))}`
    : '–'

const OUTCOMES = [
  { outcome: 'wonByA', title: 'Solved by A only' },
  { outcome: 'wonByB', title: 'Solved by B only' },
  { outcome: 'neither', title: 'Solved by neither' },
  { outcome: 'both', title: 'Solved by both' },
] as const

/** Renders the comparison of two settings: the tasks by outcome, with links to both trials. */
export function renderPairPage(
  comparison: Comparison,
  pair: ComparisonPairWithTasks,
  findTrialFile: (task: string, settingId: string) => string | undefined,
): string {
  const nameOf = createSettingNamer(comparison.settings)
  const renderLink = (label: string, file: string | undefined): Html =>
    file ? html`<a href="../${file}">${label}</a>` : html`${label}`
  const renderOutcome = ({ outcome, title }: (typeof OUTCOMES)[number]): Html => {
    const tasks = pair.outcomes.filter((each) => each.outcome === outcome)
    if (tasks.length === 0) return html``
    return html`<section class="card panel"><h2>${title}: ${tasks.length}</h2><ul class="plain-list">${tasks.map(
      ({ task }) =>
        html`<li>${renderDisplayText(task.name, 80)} <span class="small">${renderLink('trial of A', findTrialFile(task.name, pair.a))} · ${renderLink('trial of B', findTrialFile(task.name, pair.b))}</span></li>`,
    )}</ul></section>`
  }
  const content = html`<section><h1>Two settings</h1><dl class="facts"><div><dt>A</dt><dd>${renderDisplayText(nameOf(pair.a))}</dd></div><div><dt>B</dt><dd>${renderDisplayText(nameOf(pair.b))}</dd></div></dl>
<p class="answer">${describePair(pair)}</p></section>
${OUTCOMES.map(renderOutcome)}`
  return renderExportPage({ title: 'Two settings', root: '../', content })
}

function describePair(pair: ComparisonPair): string {
  if (!pair.difference) return `Both have results for ${plural(pair.tasks, 'task')}. Five are needed to compare them.`
  const points = Math.round(pair.difference.points)
  const change =
    points === 0
      ? 'A solved as much as B'
      : `A solved ${Math.abs(points)} points ${points > 0 ? 'more' : 'less'} than B`
  const certainty = pair.verdict === 'cannot_tell' ? 'that is within noise' : `it is ${VERDICT_NAMES[pair.verdict]}`
  return `${change} on ${plural(pair.tasks, 'task')}, 95 % interval ${formatRange(pair)}. Corrected for the number of pairs, ${certainty}.`
}
