import { html } from 'hono/html'
import type { PublicRelease, Release, ReleaseSetting } from '../../../src/releases/shapes/schema.ts'
import type { HistoryEntry } from '../../../src/results/schema.ts'
import {
  formatDate,
  formatDateTime,
  formatDifference,
  formatInterval,
  type Html,
  nameHarness,
  percent,
  plural,
  releasePath,
  renderDate,
  renderDateTime,
  renderName,
  renderProgram,
  repositoryPath,
  safeText,
  usd,
  withQuery,
} from '../../components/format.ts'
import { renderPage, type Site } from '../../components/layout.ts'
import { linkSetting } from '../../components/settings-table.ts'

type ReleasePair = {
  from: PublicRelease
  to: PublicRelease
  /** Ids of the recommended settings of both releases. Undefined if the picks of one are not known. */
  recommended: { from: string | undefined; to: string | undefined } | undefined
  history: readonly HistoryEntry[]
}

/** Renders what changed between two releases of a repository. */
export function renderComparePage(site: Site, pair: ReleasePair): string {
  const { from, to, history } = pair
  const { fullName } = to.repository
  const path = `${repositoryPath(fullName)}/compare`
  const changes = compareReleases(from, to)
  const [before, after] = renderDates(from, to)
  const content = html`<section><h1 class="where"><a href="${repositoryPath(fullName)}">${renderName(fullName)}</a> <span class="muted">what changed from ${before} to ${after}</span></h1></section>
<section>${from.releaseId === to.releaseId ? html`<p class="answer">${history.length < 2 ? 'There is only one release, so there is nothing to compare yet.' : 'Both sides show the same release.'}</p>` : renderSummary(pair, changes)}
${[from, to].map(renderWithdrawn)}${renderChoice(path, pair)}</section>
<section class="card panel" aria-labelledby="changes-title"><div class="panel-head"><h2 id="changes-title">Settings</h2></div>
${renderTable(from, to, changes)}
<p class="note small muted">A change is within noise if the two 95 % intervals overlap. Different tasks also change accuracy: ${plural(from.tasks, 'task')} before, ${plural(to.tasks, 'task')} after.</p></section>
${renderConditions(from, to)}`
  return renderPage(site, {
    title: `${safeText(fullName)}: what changed`,
    description: `What changed in the results of ${safeText(fullName)} between ${formatDate(from.releasedAt)} and ${formatDate(to.releasedAt)}.`,
    path: withQuery(path, { from: from.releaseId, to: to.releaseId }),
    content,
  })
}

/** A setting in two releases. `before` is missing if the setting is new, `after` if it was dropped. */
type SettingChange = { id: string; before?: ReleaseSetting | undefined; after?: ReleaseSetting | undefined }

type ReleaseChanges = {
  settings: SettingChange[]
  /** Number of new settings, and of settings that were dropped. */
  added: number
  removed: number
  enteredFrontier: ReleaseSetting[]
  leftFrontier: ReleaseSetting[]
  /** Number of tasks after minus number of tasks before. */
  taskDifference: number
}

/** Compares two releases setting by setting. Changed settings come first, each group with the most accurate first. */
function compareReleases(from: Release, to: Release): ReleaseChanges {
  const ids = [...new Set([...to.settings, ...from.settings].map(({ id }) => id))]
  const byAccuracy = ids
    .map((id): SettingChange => ({ id, before: findSetting(from, id), after: findSetting(to, id) }))
    .toSorted((a, b) => toAccuracy(b) - toAccuracy(a))
  const settings = [...byAccuracy.filter(isChanged), ...byAccuracy.filter((setting) => !isChanged(setting))]
  return {
    settings,
    added: settings.filter(({ before }) => !before).length,
    removed: settings.filter(({ after }) => !after).length,
    enteredFrontier: settings.flatMap(({ before, after }) => (after?.onFrontier && !before?.onFrontier ? [after] : [])),
    leftFrontier: settings.flatMap(({ before, after }) => (before?.onFrontier && !after?.onFrontier ? [before] : [])),
    taskDifference: to.tasks - from.tasks,
  }
}

const findSetting = ({ settings }: Release, id: string): ReleaseSetting | undefined =>
  settings.find((setting) => setting.id === id)

/** Returns true if the setting is new or dropped, joined or left the frontier, or changed by more than noise. */
const isChanged = ({ before, after }: SettingChange): boolean =>
  !before || !after || before.onFrontier !== after.onFrontier || !isWithinNoise(before, after)

const toAccuracy = ({ before, after }: SettingChange): number => (after ?? before)?.accuracy ?? 0

/** Returns true if the intervals of both releases overlap or one has none, so that the change can be noise. */
function isWithinNoise(before: ReleaseSetting, after: ReleaseSetting): boolean {
  const [a, b] = [before.stats.ci95, after.stats.ci95]
  return !a || !b || (a.low <= b.high && b.low <= a.high)
}

/** Renders the dates of both releases, with the time of day if both were published on the same day. */
function renderDates(from: PublicRelease, to: PublicRelease): [Html, Html] {
  const isSameDay = from.releasedAt.slice(0, 10) === to.releasedAt.slice(0, 10)
  const render = isSameDay ? renderDateTime : renderDate
  return [render(from.releasedAt), render(to.releasedAt)]
}

/** Renders a summary: settings, tasks, recommendation, frontier, accuracies. */
function renderSummary(
  pair: ReleasePair,
  { settings, taskDifference, enteredFrontier, leftFrontier, ...counts }: ReleaseChanges,
): Html {
  const changedAccuracies = settings.filter(
    ({ before, after }) => before && after && !isWithinNoise(before, after),
  ).length
  const sentences = [
    html`${describeCounts(counts)}`,
    ...(taskDifference === 0 ? [] : [html`${formatDifference(taskDifference)} tasks.`]),
    ...describeRecommendation(pair),
    ...(enteredFrontier.length === 0 ? [] : [html`${renderSettings(enteredFrontier)} joined the frontier.`]),
    ...(leftFrontier.length === 0
      ? []
      : [html`${renderSettings(leftFrontier)} left ${enteredFrontier.length === 0 ? 'the frontier' : 'it'}.`]),
  ]
  return html`<p class="answer">${sentences.map((sentence) => html`${sentence} `)}<span class="muted">${changedAccuracies === 0 ? 'No accuracy changed by more than noise.' : `${plural(changedAccuracies, 'accuracy', 'accuracies')} changed by more than noise.`}</span></p>`
}

function describeCounts({ added, removed }: Pick<ReleaseChanges, 'added' | 'removed'>): string {
  const parts = [
    ...(added > 0 ? [plural(added, 'new setting')] : []),
    ...(removed > 0 ? [plural(removed, 'dropped setting')] : []),
  ]
  return parts.length === 0 ? 'The same settings.' : `${parts.join(', ')}.`
}

function describeRecommendation({ from, to, recommended }: ReleasePair): Html[] {
  if (!recommended) return []
  const old = from.settings.find(({ id }) => id === recommended.from)
  const current = to.settings.find(({ id }) => id === recommended.to)
  if (!old && !current) return [html`Neither release recommends a setting.`]
  if (!current) return [html`No setting is recommended any more.`]
  if (!old) return [html`${renderSettingName(current)} is now recommended.`]
  if (old.id === current.id) return [html`The recommendation is unchanged.`]
  return [html`The recommendation changed from ${renderSettingName(old)} to ${renderSettingName(current)}.`]
}

const renderSettingName = ({ model, harness }: ReleaseSetting): Html =>
  html`${renderName(model.label, 60)} with ${renderName(nameHarness(harness), 40)}`

/** Lists settings as in a sentence: `a, b and c`. */
const renderSettings = (settings: readonly ReleaseSetting[]): Html =>
  html`${settings.map((setting, index) => html`${toSeparator(index, settings.length)}${renderSettingName(setting)}`)}`

/** Returns the text before an entry of a list in a sentence. */
function toSeparator(index: number, length: number): string {
  if (index === 0) return ''
  return index === length - 1 ? ' and ' : ', '
}

const renderWithdrawn = ({ withdrawn, releasedAt }: PublicRelease): Html =>
  withdrawn
    ? html`<p class="note warning">The release of ${renderDate(releasedAt)} was <strong>withdrawn</strong> on ${renderDate(withdrawn.at)}: ${renderName(withdrawn.reason, 1000)}</p>`
    : html``

function renderChoice(path: string, { from, to, history }: ReleasePair): Html {
  const renderSelect = (field: string, label: string, currentId: string) =>
    html`<label><span class="small muted">${label}</span> <select name="${field}">${history.map(
      ({ releaseId, releasedAt, publisher, withdrawn }) =>
        html`<option value="${releaseId}" ${releaseId === currentId ? html`selected` : ''}>${formatDateTime(releasedAt)}, ${safeText(publisher.login, 40)}${withdrawn ? ', withdrawn' : ''}</option>`,
    )}</select></label>`
  return html`<form class="filters" action="${path}" method="get">${renderSelect('from', 'Before', from.releaseId)}${renderSelect('to', 'After', to.releaseId)}<button class="button" type="submit">Compare</button></form>`
}

function renderTable(from: PublicRelease, to: PublicRelease, { settings }: ReleaseChanges): Html {
  const [before, after] = renderDates(from, to)
  const renderHead = ({ repository, releaseId }: PublicRelease, title: string, released: Html) =>
    html`<th scope="col" class="number">${title}<br><a class="dated" href="${releasePath(repository.fullName, releaseId)}">${released}</a></th>`
  return html`<div class="scroll" role="group" aria-labelledby="changes-title" tabindex="0"><table><thead><tr><th scope="col">Setting</th>${renderHead(from, 'Before', before)}${renderHead(to, 'After', after)}<th scope="col" class="number">Change</th><th scope="col" class="number wide-only">Per task</th><th scope="col" class="wide-only">Frontier</th></tr></thead>
<tbody>${settings.map(renderRow)}</tbody></table></div>`
}

function renderRow({ before, after }: SettingChange): Html {
  const setting = after ?? before
  if (!setting) return html``
  return html`<tr><th scope="row"><span class="model">${linkSetting(setting)}</span><br><span class="small muted">${renderProgram(setting)}</span>${renderNarrowFrontierChange(before, after)}</th>
<td class="number">${renderAccuracy(before)}</td><td class="number">${renderAccuracy(after)}</td>
<td class="number">${renderChange(before, after)}</td><td class="number wide-only">${renderCosts(before, after)}</td><td class="wide-only">${renderFrontierChange(before, after)}</td></tr>`
}

const renderAccuracy = (setting: ReleaseSetting | undefined): Html =>
  setting
    ? html`<strong>${percent(setting.accuracy)}</strong> <span class="own-line small faint">${setting.stats.ci95 ? formatInterval(setting.stats.ci95) : ''}</span>`
    : html`<span class="faint">–</span>`

function renderChange(before: ReleaseSetting | undefined, after: ReleaseSetting | undefined): Html {
  if (!before) return html`<span class="chip">new</span>`
  if (!after) return html`<span class="chip">dropped</span>`
  if (before.accuracy === after.accuracy) return html`<span class="faint">none</span>`
  const points = `${formatDifference(Math.round(after.accuracy - before.accuracy))} points`
  return isWithinNoise(before, after)
    ? html`${points}<br><span class="small faint">within noise</span>`
    : html`<strong>${points}</strong>`
}

/** Renders the cost of both releases as `before → after`, or once if it is the same or one is missing. */
function renderCosts(before: ReleaseSetting | undefined, after: ReleaseSetting | undefined): string {
  const costs = [before, after].flatMap((setting) => (setting ? usd(setting.costPerTaskUsd) : []))
  return [...new Set(costs)].join(' → ')
}

function renderFrontierChange(before: ReleaseSetting | undefined, after: ReleaseSetting | undefined): Html {
  if (after?.onFrontier) return html`<span class="chip gold">${before?.onFrontier ? 'frontier' : 'joined'}</span>`
  return html`<span class="small faint">${before?.onFrontier ? 'left' : '–'}</span>`
}

/** Renders a change of the frontier below the name of the setting, for phones, which do not show its column. */
function renderNarrowFrontierChange(before: ReleaseSetting | undefined, after: ReleaseSetting | undefined): Html {
  if (Boolean(before?.onFrontier) === Boolean(after?.onFrontier)) return html``
  return html`<span class="narrow-only small">${after?.onFrontier ? html`<strong class="gold">joined the frontier</strong>` : 'left the frontier'}</span>`
}

/** Renders the conditions of both releases: attempts, settings, verify modes, sandboxes, harness versions. */
function renderConditions(from: PublicRelease, to: PublicRelease): Html {
  const listVersions = ({ disclosure }: PublicRelease) =>
    disclosure.harnesses.map(({ harness, version }) => `${safeText(nameHarness(harness), 60)} ${safeText(version, 40)}`)
  const conditions: [string, string, string][] = [
    ['Attempts per task', formatAttempts(from), formatAttempts(to)],
    ['Settings run', String(from.disclosure.settings.run), String(to.disclosure.settings.run)],
    ['Verify modes', joinTexts(from.disclosure.verifyModes), joinTexts(to.disclosure.verifyModes)],
    ['Sandboxes', joinTexts(from.disclosure.sandboxes), joinTexts(to.disclosure.sandboxes)],
    ['Harness versions', joinTexts(listVersions(from)), joinTexts(listVersions(to))],
  ]
  return html`<section class="card panel" aria-labelledby="conditions-title"><div class="panel-head"><h2 id="conditions-title">Conditions</h2></div><div class="scroll" role="group" aria-labelledby="conditions-title" tabindex="0"><table class="halves"><thead><tr><th scope="col">Condition</th><th scope="col">Before</th><th scope="col">After</th></tr></thead><tbody>${conditions.map(
    ([label, before, after]) =>
      html`<tr><th scope="row">${label}</th><td>${before}</td><td>${before === after ? html`<span class="faint">same</span>` : after}</td></tr>`,
  )}</tbody></table></div></section>`
}

const formatAttempts = ({ disclosure: { attempts } }: PublicRelease): string =>
  attempts.min === attempts.max ? String(attempts.min) : `${attempts.min} to ${attempts.max}`

const joinTexts = (texts: readonly string[]): string =>
  texts.length === 0 ? 'not recorded' : texts.map((text) => safeText(text, 100)).join(', ')
