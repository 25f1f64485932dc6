import { html } from 'hono/html'
import type { ReleaseSetting } from '../../src/releases/shapes/schema.ts'
import { hasSettingPage } from '../../src/site/schema.ts'
import {
  formatDuration,
  formatInterval,
  type Html,
  nameHarness,
  nameLevel,
  percent,
  plural,
  renderName,
  renderProgram,
  safeText,
  settingPath,
  usd,
  withQuery,
} from './format.ts'
import { drawInterval } from './interval-bar.ts'

/** How the reader wants to see the page: order and filters of the table, publisher, and prices. */
export type TableView = {
  sort?: 'rank' | 'solved' | 'cost' | 'time' | 'frontier' | undefined
  provider?: string | undefined
  harness?: string | undefined
  level?: string | undefined
  publisher?: string | undefined
  prices?: 'today' | undefined
}
type Sort = NonNullable<TableView['sort']>

/** Numbers by which rows are sorted in ascending order. Values of which more is better are negative. */
const SORT_KEYS: Record<Sort, (setting: ReleaseSetting) => number> = {
  // Sorts by the best rank first and by the worst rank second. A release has at most 500 settings.
  rank: ({ stats: { rank } }) => rank.best * 1000 + rank.worst,
  solved: ({ accuracy }) => -accuracy,
  cost: ({ costPerTaskUsd }) => costPerTaskUsd,
  time: ({ stats: { medianSeconds } }) => medianSeconds ?? Number.MAX_VALUE,
  frontier: ({ stats: { frontierProbability } }) => -(frontierProbability ?? -1),
}

/** Returns the name of a harness for an option of a filter. */
export const labelHarness = (id: string): string => safeText(nameHarness(id), 40)

const FILTERS = [
  { field: 'provider', label: 'Provider', read: (setting: ReleaseSetting) => setting.provider, toLabel: undefined },
  { field: 'harness', label: 'Harness', read: (setting: ReleaseSetting) => setting.harness, toLabel: labelHarness },
  { field: 'level', label: 'Level', read: (setting: ReleaseSetting) => setting.reasoningLevel, toLabel: nameLevel },
] as const

/** Address of the section that defines the columns. */
const DEFINITIONS_PATH = '/methodology#estimated-numbers'

/** Renders all settings as a table. Sorting and filters are links and a form, so that they work without JavaScript. */
export function renderSettingsTable(
  settings: readonly ReleaseSetting[],
  { path, view, recommendedId }: { path: string; view: TableView; recommendedId: string | undefined },
): Html {
  const shown = settings
    .filter((setting) =>
      FILTERS.every(
        ({ field, read }) => view[field] === undefined || view[field] === '' || read(setting) === view[field],
      ),
    )
    .toSorted(compareBy(view.sort ?? 'rank'))
  const count =
    shown.length === settings.length
      ? plural(settings.length, 'setting')
      : `${shown.length} of ${plural(settings.length, 'setting')}`
  return html`${renderFilters(settings, path, view)}
<div class="scroll" role="group" aria-labelledby="settings-caption" tabindex="0">
<table data-sortable><caption class="small muted"><span id="settings-caption">${count}</span>. <a href="${DEFINITIONS_PATH}">Rank</a>: range after correcting for all pairs of settings, so it is wider than the comparison behind the recommendation. <a href="${DEFINITIONS_PATH}">On the frontier</a>: no other setting is at least as cheap and as accurate; the percentage is how often that holds if the tasks were drawn again.</caption>
<thead><tr>${renderHeader('rank', 'Rank', path, view)}<th scope="col">Setting</th>${renderHeader('solved', 'Solved', path, view, 'number')}<th scope="col" class="wide-only">95 % interval</th>${renderHeader('cost', 'Per task', path, view, 'number')}${renderHeader('time', 'Median time', path, view, 'number wide-only')}${renderHeader('frontier', 'On the frontier', path, view)}</tr></thead>
<tbody>${shown.map((setting) => renderRow(setting, setting.id === recommendedId))}</tbody></table></div>
${shown.length === 0 ? html`<p class="muted">No setting matches. <a href="${withQuery(path, { publisher: view.publisher })}">Show all settings</a></p>` : ''}`
}

const compareBy =
  (sort: Sort) =>
  (a: ReleaseSetting, b: ReleaseSetting): number =>
    SORT_KEYS[sort](a) - SORT_KEYS[sort](b) || b.accuracy - a.accuracy || a.costPerTaskUsd - b.costPerTaskUsd

function renderHeader(sort: Sort, label: string, path: string, view: TableView, className = ''): Html {
  const isCurrent = (view.sort ?? 'rank') === sort
  const direction = sort === 'solved' || sort === 'frontier' ? 'descending' : 'ascending'
  return html`<th scope="col" class="${className}" ${isCurrent ? html`aria-sort="${direction}"` : ''} data-direction="${direction}"><a href="${withQuery(path, { ...view, sort })}" class="quiet" data-sort="${sort}">${label}</a></th>`
}

function renderRow(setting: ReleaseSetting, isRecommended: boolean): Html {
  const { accuracy, costPerTaskUsd, onFrontier, custom, tasks, stats } = setting
  const { ci95, frontierProbability, coverage, medianSeconds } = stats
  return html`<tr ${onFrontier ? html`class="on"` : ''} data-rank="${SORT_KEYS.rank(setting)}" data-solved="${SORT_KEYS.solved(setting)}" data-cost="${SORT_KEYS.cost(setting)}" data-time="${SORT_KEYS.time(setting)}" data-frontier="${SORT_KEYS.frontier(setting)}">
<td class="rank muted nowrap">${renderRank(setting)}</td>
<th scope="row"><span class="model">${linkSetting(setting)}</span>${isRecommended ? html` <span class="chip gold">use this</span>` : ''}${custom ? html` <span class="chip">custom model</span>` : ''}<br><span class="small muted">${renderProgram(setting)}${coverage < 100 ? html` · ${plural(tasks, 'task')} only` : ''}</span></th>
<td class="number"><strong>${percent(accuracy)}</strong>${ci95 ? html`<span class="narrow-only small faint">${formatInterval(ci95)}</span>` : ''}</td>
<td class="wide-only nowrap">${drawInterval(accuracy, ci95)} <span class="small faint">${ci95 ? formatInterval(ci95) : 'too few tasks'}</span></td>
<td class="number">${usd(costPerTaskUsd)}</td>
<td class="number wide-only muted">${medianSeconds ? formatDuration(medianSeconds) : '–'}</td>
<td>${renderFrontier(onFrontier, frontierProbability)}</td></tr>`
}

/** Renders the range of ranks that the data supports. */
export const renderRank = ({ stats: { rank } }: ReleaseSetting): string =>
  rank.best === rank.worst ? String(rank.best) : `${rank.best}–${rank.worst}`

/** Settings with a longer id are not linked, because their address would be too long. */
const LINKED_ID_LENGTH_MAX = 300

/** Links to the page of a setting across repositories, if it has one. */
export const linkSetting = (setting: ReleaseSetting, label: Html = renderName(setting.model.label)): Html =>
  hasSettingPage(setting) && setting.id.length <= LINKED_ID_LENGTH_MAX
    ? html`<a class="plain" href="${settingPath(setting.id)}">${label}</a>`
    : label

/** Renders whether a setting is on the frontier, and how often that holds when tasks are resampled. */
export const renderFrontier = (onFrontier: boolean, probability: number | null): Html => {
  const share = probability === null ? '' : percent(100 * probability)
  if (onFrontier) return html`<span class="chip gold">frontier ${share}</span>`
  return html`<span class="small faint">${share || '–'}</span>`
}

function renderFilters(settings: readonly ReleaseSetting[], path: string, view: TableView): Html {
  const groups = FILTERS.map((filter) => ({ ...filter, values: [...new Set(settings.map(filter.read))].sort() }))
  if (groups.every(({ values }) => values.length < 2)) return html``
  const hiddenFields = [
    ['sort', view.sort],
    ['publisher', view.publisher],
    ['prices', view.prices],
  ] as const
  return html`<form class="filters" action="${path}" method="get">
${hiddenFields.map(([field, value]) => (value ? html`<input type="hidden" name="${field}" value="${safeText(value, 200)}">` : ''))}
${groups.map(({ field, label, values, toLabel }) => (values.length < 2 ? '' : renderSelect(field, label, values, view[field], toLabel)))}
<button class="button" type="submit">Filter</button></form>`
}

/** Renders a list to choose a value of a filter, or all. Values with unsafe characters are left out. */
export const renderSelect = (
  field: string,
  label: string,
  values: readonly string[],
  current: string | undefined,
  toLabel: (value: string) => string = (value) => safeText(value, 40),
): Html =>
  html`<label><span class="small muted">${label}</span> <select name="${field}"><option value="">All</option>${values
    .filter((value) => value !== '' && safeText(value) === value)
    .map(
      (value) => html`<option value="${value}" ${value === current ? html`selected` : ''}>${toLabel(value)}</option>`,
    )}</select></label>`
