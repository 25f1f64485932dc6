import { html } from 'hono/html'
import type { PublicRelease, ReleaseSetting } from '../../../src/releases/shapes/schema.ts'
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
import { compareReleases, isWithinNoise, type ReleaseChanges, type SettingChange } from './changes.ts'

type ReleasePair = {
  from: PublicRelease
  to: PublicRelease
  /** Recommended settings of both releases. Undefined if the picks of one are not known. */
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
<section>${from.releaseId === to.releaseId ? html`<p class="answer">${history.length < 2 ? 'There is only one release, so there is nothing to compare yet.' : 'Both sides show the same release.'}</p>` : renderSentence(pair, changes)}
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

/** Renders the dates of both releases, with the time of day if the dates are equal. */
function renderDates(from: PublicRelease, to: PublicRelease): [Html, Html] {
  const isSameDay = from.releasedAt.slice(0, 10) === to.releasedAt.slice(0, 10)
  const show = ({ releasedAt }: PublicRelease) => (isSameDay ? renderDateTime(releasedAt) : renderDate(releasedAt))
  return [show(from), show(to)]
}

/** Renders the changes in the order of their weight: settings, recommendation, frontier, accuracies. */
function renderSentence(
  pair: ReleasePair,
  { settings, taskDifference, enteredFrontier, leftFrontier, ...counts }: ReleaseChanges,
): Html {
  const moved = settings.filter(({ before, after }) => before && after && !isWithinNoise(before, after)).length
  const sentences = [
    html`${describeCounts(counts)}`,
    ...(taskDifference === 0 ? [] : [html`${formatDifference(taskDifference)} tasks.`]),
    ...describeRecommendation(pair),
    ...(enteredFrontier.length === 0 ? [] : [html`${renderSettings(enteredFrontier)} joined the frontier.`]),
    ...(leftFrontier.length === 0
      ? []
      : [html`${renderSettings(leftFrontier)} left ${enteredFrontier.length === 0 ? 'the frontier' : 'it'}.`]),
  ]
  return html`<p class="answer">${sentences.map((sentence) => html`${sentence} `)}<span class="muted">${moved === 0 ? 'No accuracy changed by more than noise.' : `${plural(moved, 'accuracy', 'accuracies')} changed by more than noise.`}</span></p>`
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
  const [old, current] = [
    from.settings.find(({ id }) => id === recommended.from),
    to.settings.find(({ id }) => id === recommended.to),
  ]
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
  const select = (field: string, label: string, current: string) =>
    html`<label><span class="small muted">${label}</span> <select name="${field}">${history.map(
      ({ releaseId, releasedAt, publisher, withdrawn }) =>
        html`<option value="${releaseId}" ${releaseId === current ? html`selected` : ''}>${formatDateTime(releasedAt)}, ${safeText(publisher.login, 40)}${withdrawn ? ', withdrawn' : ''}</option>`,
    )}</select></label>`
  return html`<form class="filters" action="${path}" method="get">${select('from', 'Before', from.releaseId)}${select('to', 'After', to.releaseId)}<button class="button" type="submit">Compare</button></form>`
}

function renderTable(from: PublicRelease, to: PublicRelease, { settings }: ReleaseChanges): Html {
  const [before, after] = renderDates(from, to)
  const head = ({ repository, releaseId }: PublicRelease, title: string, released: Html) =>
    html`<th scope="col" class="number">${title}<br><a class="dated" href="${releasePath(repository.fullName, releaseId)}">${released}</a></th>`
  return html`<div class="scroll" role="group" aria-labelledby="changes-title" tabindex="0"><table><thead><tr><th scope="col">Setting</th>${head(from, 'Before', before)}${head(to, 'After', after)}<th scope="col" class="number">Change</th><th scope="col" class="number wide-only">Per task</th><th scope="col" class="wide-only">Frontier</th></tr></thead>
<tbody>${settings.map(renderRow)}</tbody></table></div>`
}

function renderRow({ before, after }: SettingChange): Html {
  const setting = after ?? before
  if (!setting) return html``
  return html`<tr><th scope="row"><span class="model">${linkSetting(setting)}</span><br><span class="small muted">${renderProgram(setting)}</span>${renderFrontierMove(before, after)}</th>
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

function renderCosts(before: ReleaseSetting | undefined, after: ReleaseSetting | undefined): string {
  const [old, current] = [before, after].map((each) => (each ? usd(each.costPerTaskUsd) : ''))
  return old === current || !old || !current ? `${old || current}` : `${old} → ${current}`
}

function renderFrontierChange(before: ReleaseSetting | undefined, after: ReleaseSetting | undefined): Html {
  if (after?.onFrontier) return html`<span class="chip gold">${before?.onFrontier ? 'frontier' : 'joined'}</span>`
  return html`<span class="small faint">${before?.onFrontier ? 'left' : '–'}</span>`
}

/** Renders a change of the frontier for phones, which have no room for its column. */
function renderFrontierMove(before: ReleaseSetting | undefined, after: ReleaseSetting | undefined): Html {
  if (Boolean(before?.onFrontier) === Boolean(after?.onFrontier)) return html``
  return html`<span class="narrow-only small">${after?.onFrontier ? html`<strong class="gold">joined the frontier</strong>` : 'left the frontier'}</span>`
}

/** Renders conditions that differ: harness versions, verify modes, sandboxes, attempts. */
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

const formatAttempts = ({ disclosure: { attempts: count } }: PublicRelease): string =>
  count.min === count.max ? String(count.min) : `${count.min} to ${count.max}`

const joinTexts = (texts: readonly string[]): string =>
  texts.length === 0 ? 'not recorded' : texts.map((text) => safeText(text, 100)).join(', ')
