import { html } from 'hono/html'
import type { AcrossKind, AcrossRow } from '../../../src/site/schema.ts'
import {
  describeSetting,
  formatInterval,
  type Html,
  harnessPath,
  modelPath,
  nameHarness,
  percent,
  plural,
  publisherPath,
  renderDate,
  renderName,
  renderProgram,
  repositoryPath,
  safeText,
  settingPath,
  usd,
  withQuery,
} from '../../components/format.ts'
import { drawInterval } from '../../components/interval-bar.ts'
import { renderPage, type Site } from '../../components/layout.ts'
import { linkSetting, renderFrontier, renderRank } from '../../components/settings-table.ts'

const PATHS: Record<AcrossKind, (id: string) => string> = {
  model: modelPath,
  harness: harnessPath,
  setting: settingPath,
}

/** Renders the results of a model, a harness or a setting on all public repositories, without an average. */
export function renderAcrossPage(
  site: Site,
  { kind, id, rows }: { kind: AcrossKind; id: string; rows: readonly AcrossRow[] },
): string {
  const title = nameModelHarnessOrSetting(kind, id, rows)
  const repositories = countDistinct(rows.map(({ repository }) => repository.fullName))
  const content = html`<section><p class="where muted">${KIND_LABELS[kind]}</p><h1>${renderName(title, 120)}</h1>
${renderSummary(kind, rows)}</section>
${kind === 'setting' ? renderRelatedLinks(rows) : renderSettings(kind, rows)}
<section class="card panel" aria-labelledby="repositories-title"><div class="panel-head"><h2 id="repositories-title">By repository</h2></div>
${renderTable(kind, rows)}
<p class="note small muted">There is no average over repositories: they have different tasks, and a mean would depend on which of them happened to be measured. Compare settings within one repository.</p></section>`
  return renderPage(site, {
    title: safeText(title, 120),
    description: `${safeText(title, 120)} on ${plural(repositories, 'repository', 'repositories')}: accuracy with intervals, and cost.`,
    path: PATHS[kind](id),
    content,
  })
}

const KIND_LABELS: Record<AcrossKind, string> = { model: 'Model', harness: 'Harness', setting: 'Setting' }

function nameModelHarnessOrSetting(kind: AcrossKind, id: string, [first]: readonly AcrossRow[]): string {
  if (kind === 'harness') return nameHarness(id)
  if (!first) return id
  return kind === 'model' ? first.setting.model.label : describeSetting(first.setting)
}

const countDistinct = (values: readonly string[]): number => new Set(values).size

/** Renders a summary with ranges instead of a mean, which would depend on the repositories that were measured. */
function renderSummary(kind: AcrossKind, rows: readonly AcrossRow[]): Html {
  const repositories = [...new Set(rows.map(({ repository }) => repository.fullName))]
  const [firstRepository = ''] = repositories
  const settingCount = countDistinct(rows.map(({ setting }) => setting.id))
  const where = repositories.length === 1 ? renderName(firstRepository) : html`${repositories.length} repositories`
  const settingsText = settingCount === 1 ? 'its one setting' : `its ${settingCount} settings`
  const subject = kind === 'setting' ? 'it' : settingsText
  const solved = formatRange(
    rows.map(({ setting }) => setting.accuracy),
    percent,
  )
  const cost = formatRange(
    rows.map(({ setting }) => setting.costPerTaskUsd),
    usd,
  )
  return html`<p class="answer">On ${where}, ${subject} solved <strong>${solved}</strong> of the tasks for <strong>${cost}</strong> each. <span class="muted">${describeRanking(rows, repositories.length)}</span></p>`
}

/** Describes on how many repositories a setting is on the frontier, and on how many it is the most accurate. */
function describeRanking(rows: readonly AcrossRow[], repositoryCount: number): string {
  const countRepositories = (matches: (row: AcrossRow) => boolean) =>
    countDistinct(rows.filter(matches).map(({ repository }) => repository.fullName))
  const onFrontierCount = countRepositories(({ setting }) => setting.onFrontier)
  const mostAccurateCount = countRepositories(
    ({ setting, best }) => best !== undefined && setting.accuracy >= best.accuracy,
  )
  const isSingleSetting = countDistinct(rows.map(({ setting }) => setting.id)) === 1
  const lead = onFrontierCount === 0 ? '' : describeLead(mostAccurateCount, repositoryCount)
  return `${describeFrontier(onFrontierCount, repositoryCount, isSingleSetting)}${lead}.`
}

function describeFrontier(onFrontierCount: number, repositoryCount: number, isSingleSetting: boolean): string {
  if (onFrontierCount === 0)
    return `${isSingleSetting ? 'It is not' : 'None is'} on ${repositoryCount === 1 ? 'the frontier there' : 'any frontier'}`
  const where = repositoryCount === 1 ? 'there' : `of ${onFrontierCount} of ${repositoryCount}`
  return `${isSingleSetting ? 'It is' : 'At least one is'} on the frontier ${where}`
}

function describeLead(mostAccurateCount: number, repositoryCount: number): string {
  if (mostAccurateCount === 0)
    return `; another setting is more accurate ${repositoryCount === 1 ? 'there' : 'everywhere'}`
  return ` and the most accurate ${repositoryCount === 1 ? 'there' : `on ${mostAccurateCount}`}`
}

/** Renders links from a setting to the pages of its model and its harness. */
function renderRelatedLinks([first]: readonly AcrossRow[]): Html {
  if (!first) return html``
  const { model, harness } = first.setting
  return html`<p class="small">Also: <a href="${modelPath(model.catalogId)}">all settings with ${renderName(model.label, 60)}</a> · <a href="${harnessPath(harness)}">all settings with ${renderName(nameHarness(harness), 60)}</a></p>`
}

/** Renders the settings of a model or harness, each with its number of repositories and its ranges. */
function renderSettings(kind: AcrossKind, rows: readonly AcrossRow[]): Html {
  const groups = [...Map.groupBy(rows, ({ setting }) => setting.id).values()].toSorted((a, b) => b.length - a.length)
  return html`<section class="card panel" aria-labelledby="settings-title"><div class="panel-head"><h2 id="settings-title">Settings</h2></div>
<div class="scroll" role="group" aria-labelledby="settings-title" tabindex="0"><table><thead><tr><th scope="col">Setting</th><th scope="col" class="number">Repositories</th><th scope="col" class="number">On the frontier</th><th scope="col" class="number">Solved</th><th scope="col" class="number wide-only">Per task</th></tr></thead>
<tbody>${groups.map((group) => renderSettingRow(kind, group))}</tbody></table></div></section>`
}

/** Renders a setting from its results on all repositories. */
function renderSettingRow(kind: AcrossKind, group: readonly AcrossRow[]): Html {
  const [first] = group
  if (!first) return html``
  const { setting } = first
  const accuracies = group.map((row) => row.setting.accuracy)
  const costs = group.map((row) => row.setting.costPerTaskUsd)
  const label =
    kind === 'model' ? renderProgram(setting) : html`${renderName(setting.model.label, 60)} · ${renderProgram(setting)}`
  return html`<tr><th scope="row">${linkSetting(setting, label)}</th><td class="number">${countDistinct(group.map(({ repository }) => repository.fullName))}</td><td class="number">${group.filter((row) => row.setting.onFrontier).length}</td><td class="number">${formatRange(accuracies, percent)}</td><td class="number wide-only">${formatRange(costs, usd)}</td></tr>`
}

/** Formats the lowest and the highest value, or one of them if both are formatted equally. */
function formatRange(values: readonly number[], format: (value: number) => string): string {
  const [low, high] = [format(Math.min(...values)), format(Math.max(...values))]
  return low === high ? low : `${low} to ${high}`
}

function renderTable(kind: AcrossKind, rows: readonly AcrossRow[]): Html {
  const sorted = rows.toSorted(
    (a, b) =>
      compareTexts(a.repository.fullName, b.repository.fullName) ||
      compareDefaultLineFirst(a, b) ||
      a.setting.stats.rank.best - b.setting.stats.rank.best ||
      b.setting.accuracy - a.setting.accuracy,
  )
  return html`<div class="scroll" role="group" aria-labelledby="repositories-title" tabindex="0"><table><thead><tr><th scope="col">Repository</th>${kind === 'setting' ? '' : html`<th scope="col" class="wide-only">Setting</th>`}<th scope="col" class="number">Solved</th><th scope="col" class="wide-only">95 % interval</th><th scope="col" class="number">Per task</th><th scope="col" class="number wide-only">Best there</th><th scope="col" class="wide-only">Rank</th><th scope="col">On the frontier</th></tr></thead>
<tbody>${sorted.map((row) => renderRow(kind, row))}</tbody></table></div>`
}

/** Orders the default line of a repository before the lines of other publishers. */
function compareDefaultLineFirst(a: AcrossRow, b: AcrossRow): number {
  if (a.defaultLine === b.defaultLine) return 0
  return a.defaultLine ? -1 : 1
}

function compareTexts(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

function renderRow(kind: AcrossKind, row: AcrossRow): Html {
  const { repository, publisher, releasedAt, endorsed, defaultLine, settings, setting } = row
  const { ci95, frontierProbability } = setting.stats
  const href = withQuery(repositoryPath(repository.fullName), { publisher: defaultLine ? undefined : publisher.login })
  const label =
    kind === 'model'
      ? renderProgram(setting)
      : html`${renderName(setting.model.label, 60)}<br><span class="small muted">${renderProgram(setting)}</span>`
  return html`<tr><th scope="row"><a class="plain model" href="${href}">${renderName(repository.fullName)}</a><br>${kind === 'setting' ? '' : html`<span class="narrow-only small">${linkSetting(setting, label)}</span>`}<span class="small muted">${plural(setting.tasks, 'task')} · <a class="plain" href="${publisherPath(publisher.login)}">${renderName(publisher.login)}</a>${endorsed ? ', endorsed' : ''} · ${renderDate(releasedAt)}</span></th>
${kind === 'setting' ? '' : html`<td class="wide-only">${linkSetting(setting, label)}</td>`}
<td class="number"><strong>${percent(setting.accuracy)}</strong>${ci95 ? html`<span class="narrow-only small faint">${formatInterval(ci95)}</span>` : ''}</td>
<td class="wide-only nowrap">${drawInterval(setting.accuracy, ci95)} <span class="small faint">${ci95 ? formatInterval(ci95) : 'too few tasks'}</span></td>
<td class="number">${usd(setting.costPerTaskUsd)}</td>
<td class="number wide-only muted">${renderBest(row)}</td>
<td class="rank muted nowrap wide-only">${renderRank(setting)} of ${settings}</td>
<td>${renderFrontier(setting.onFrontier, frontierProbability)}</td></tr>`
}

/** Renders accuracy and cost of the most accurate setting of the release, unless it is the setting of the row. */
function renderBest({ setting, best }: AcrossRow): Html {
  if (!best) return html`–`
  if (best.id === setting.id) return html`<span class="small faint">this setting</span>`
  return html`${percent(best.accuracy)} <span class="small faint">${usd(best.costPerTaskUsd)}</span>`
}
