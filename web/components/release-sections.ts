import { html } from 'hono/html'
import type { Disclosure, Release } from '../../src/releases/shapes/schema.ts'
import type { HistoryEntry } from '../../src/results/schema.ts'
import {
  apiPath,
  formatDate,
  formatDifference,
  type Html,
  nameHarness,
  parseSettingId,
  plural,
  publisherPath,
  releasePath,
  renderDate,
  renderName,
  repositoryPath,
  safeText,
  usd,
  withQuery,
} from './format.ts'
import { renderCopyText, type Site } from './layout.ts'

/** Renders what was measured, how, and how far it can be trusted. */
export const renderEvidence = (release: Release): Html => html`<section class="columns" aria-label="Evidence">
<div><h2>What was measured</h2>${renderMeasured(release.disclosure)}</div>
<div><h2>Method</h2>${renderMethod(release)}</div>
<div><h2>Integrity</h2>${renderIntegrity(release.disclosure)}</div>
</section>`

const EXCLUSION_TEXTS: Record<string, string> = {
  no_results: 'without results',
  no_results_under_these_conditions: 'without results under these conditions',
  declined_after_results: 'declined after results were known',
}

function renderMeasured({ settings, tasks, trials }: Disclosure): Html {
  const unscored = [
    ...(trials.errored > 0 ? [`${trials.errored} failed because of the infrastructure`] : []),
    ...(trials.voided > 0 ? [`${trials.voided} excluded with a recorded reason`] : []),
  ]
  return html`<p>The publisher ran ${plural(settings.run, 'setting')} and published ${settings.published}.</p>
<p>${plural(tasks.published, 'task')} of ${tasks.approved} approved${
    tasks.excluded.length === 0
      ? ''
      : html`; left out: ${tasks.excluded.map(({ reason, count }) => `${count} ${EXCLUSION_TEXTS[reason] ?? safeText(reason)}`).join(', ')}`
  }.</p>
<p>${plural(trials.run, 'trial')}, of which ${trials.scored} were scored${unscored.length === 0 ? '' : `; ${unscored.join(', ')}`}.</p>`
}

function renderMethod({ disclosure, settings, prices }: Release): Html {
  const { attempts, comparisons } = disclosure
  // The methods are the same for all settings of a release.
  const [first] = settings
  const attemptCount =
    attempts.min === attempts.max ? plural(attempts.min, 'attempt') : `${attempts.min} to ${attempts.max} attempts`
  return html`<p>${attemptCount} per task; the first counts for the accuracy, all of them for the interval.</p>
<p><a href="/methodology">How results are measured</a>. Intervals: 95 %, ${safeText(first?.stats.ci95?.method ?? 'none below five tasks')}. Ranks: ${safeText(first?.stats.methods.rank ?? '')}. Frontier: ${safeText(first?.stats.methods.frontierProbability ?? '')}.</p>
<p>${plural(comparisons.count, 'comparison')}${renderSpan(comparisons)}. Costs at the prices of ${prices.at ? renderDate(prices.at) : 'the trials'}.</p>
${renderPrices(prices.models)}`
}

function renderSpan({ from, to }: Disclosure['comparisons']): Html {
  if (!from || !to) return html``
  return formatDate(from) === formatDate(to)
    ? html` on ${renderDate(to)}`
    : html` from ${renderDate(from)} to ${renderDate(to)}`
}

const renderPrices = (models: Release['prices']['models']): Html =>
  models.length === 0
    ? html``
    : html`<details><summary>Prices, USD per million tokens</summary><ul>${models.map(
        ({ catalogId, prices }) =>
          html`<li>${renderName(catalogId)}: ${prices ? `${usd(prices.input)} in, ${usd(prices.output)} out` : 'no model was called'}</li>`,
      )}</ul></details>`

const VERIFY_MODE_TEXTS: Record<string, string> = {
  grader: 'tests see the filtered working directory, and only root can access tests and reward',
  workspace: 'tests see only the filtered working directory of the agent',
  snapshot: 'tests also see the paths outside it that the reference solution changes',
  'shared-cold': 'tests see all files that the agent changed; none of its processes is alive',
  'shared-live': 'tests run beside the processes of the agent',
}

const renderIntegrity = ({ verifyModes, sandboxes, isolation, harnesses }: Disclosure): Html => html`<ul>
${verifyModes.map((mode) => html`<li>Verify mode ${renderName(mode)}${VERIFY_MODE_TEXTS[mode] ? `: ${VERIFY_MODE_TEXTS[mode]}` : ''}</li>`)}
<li>Tasks: the reference solution passes, a no-op fails, <a href="/methodology/attacks">known cheats were tried</a></li>
<li>Sandboxes: ${formatNames(sandboxes)}; isolation: ${formatNames(isolation)}</li></ul>
<details><summary>Harness versions</summary><ul>${harnesses.map(({ harness, version }) => html`<li>${renderName(nameHarness(harness))} ${renderName(version)}</li>`)}</ul></details>`

const formatNames = (names: readonly string[]): string =>
  names.length === 0 ? 'not recorded' : names.map((each) => safeText(each)).join(', ')

/** Renders all releases of a repository. Withdrawn releases remain, with the reason. */
export const renderHistory = (fullName: string, history: readonly HistoryEntry[], currentId: string): Html =>
  html`<section aria-labelledby="history-title"><h2 id="history-title">History</h2><ol class="history">${history.map(
    (entry, index) =>
      renderHistoryEntry(fullName, entry, {
        isCurrent: entry.releaseId === currentId,
        previous: findPrevious(history, index),
      }),
  )}</ol></section>`

/** Finds the previous release of the same publisher. The newest release of a history comes first. */
export const findPrevious = (history: readonly HistoryEntry[], index: number): HistoryEntry | undefined =>
  index < 0
    ? undefined
    : history.slice(index + 1).find(({ publisher }) => publisher.login === history[index]?.publisher.login)

type HistoryEntryContext = { isCurrent: boolean; previous: HistoryEntry | undefined }

function renderHistoryEntry(fullName: string, entry: HistoryEntry, { isCurrent, previous }: HistoryEntryContext): Html {
  const { releaseId, releasedAt, publisher, tasks, settings, withdrawn } = entry
  return html`<li><a href="${releasePath(fullName, releaseId)}" ${isCurrent ? html`aria-current="page"` : ''}>${renderDate(releasedAt)}</a>
<span class="muted"><a class="plain" href="${publisherPath(publisher.login)}">${renderName(publisher.login)}</a> · ${plural(tasks, 'task')} · ${plural(settings, 'setting')}</span>
${previous ? html`<span class="change muted small">${describeChanges(previous, entry)} <a href="${withQuery(`${repositoryPath(fullName)}/compare`, { from: previous.releaseId, to: releaseId })}">Compare<span class="hidden"> ${formatDate(previous.releasedAt)} with ${formatDate(releasedAt)}</span></a></span>` : ''}
${withdrawn ? html`<span class="withdrawn small"><span class="chip">withdrawn ${renderDate(withdrawn.at)}</span> ${renderName(withdrawn.reason, 1000)}</span>` : ''}</li>`
}

/** Describes what changed between two releases: sizes, and settings that joined or left the frontier. */
function describeChanges(before: HistoryEntry, after: HistoryEntry): Html {
  const [idsBefore, idsAfter] = [before, after].map(({ frontier }) => new Set(frontier.map(({ id }) => id)))
  const joinNames = (settings: HistoryEntry['frontier']) =>
    settings
      .map(
        ({ id, model }) => `${safeText(model.label, 40)} with ${safeText(nameHarness(parseSettingId(id).harness), 30)}`,
      )
      .join(', ')
  const joined = after.frontier.filter(({ id }) => !idsBefore?.has(id))
  const left = before.frontier.filter(({ id }) => !idsAfter?.has(id))
  const sizes = [
    ...(after.tasks === before.tasks ? [] : [`${formatDifference(after.tasks - before.tasks)} tasks`]),
    ...(after.settings === before.settings ? [] : [`${formatDifference(after.settings - before.settings)} settings`]),
  ]
  return html`${[
    ...sizes,
    ...(joined.length === 0 ? [] : [`joined the frontier: ${joinNames(joined)}`]),
    ...(left.length === 0 ? [] : [`left the frontier: ${joinNames(left)}`]),
    ...(joined.length + left.length === 0 ? ['same frontier'] : []),
  ].join(' · ')}.`
}

/**
 * Renders downloads and texts to copy. CSV, chart and badge always show the newest release of a publisher's line, so the
 * page of a single release does not offer them.
 */
export function renderUse(site: Site, release: Release, line: { isDefault: boolean } | undefined): Html {
  const { fullName } = release.repository
  const json = `${apiPath(fullName)}/releases/${encodeURIComponent(release.releaseId)}`
  const permalink = releasePath(fullName, release.releaseId)
  const toFilePath = (file: string): string =>
    withQuery(`${apiPath(fullName)}${file}`, { publisher: line?.isDefault ? undefined : release.publisher.login })
  const files = line
    ? html`<a href="${toFilePath('/results.csv')}">CSV</a> · <a href="${toFilePath('/chart.svg')}">SVG chart</a> · <a href="${toFilePath('/badge.svg')}">Badge</a> · `
    : ''
  const citation = `${safeText(release.publisher.login)} (${release.releasedAt.slice(0, 10)}). Coding agents on ${safeText(fullName)}. Assay release ${release.releaseId}. ${site.publicUrl}${permalink}`
  return html`<section aria-labelledby="use-title"><h2 id="use-title">Use this data</h2>
<p class="files">${files}<a href="${json}">JSON</a> · <a href="${permalink}">Permalink</a> · <a href="/api/public/results.atom">Feed</a></p>
<div class="uses">${line ? renderEmbeds(site, fullName, toFilePath) : ''}${renderFolded('Cite', renderCopyText('citation', 'Citation', citation))}</div></section>`
}

function renderEmbeds({ publicUrl }: Site, fullName: string, toFilePath: (file: string) => string): Html {
  const page = `${publicUrl}${repositoryPath(fullName)}`
  const alt = `Accuracy and cost on ${safeText(fullName).replaceAll('"', '')}`
  return html`${renderFolded('Badge', renderCopyText('badge', 'Badge, Markdown', `[![Assay](${publicUrl}${toFilePath('/badge.svg')})](${page})`))}
${renderFolded('Embed', renderCopyText('embed', 'Embed, HTML', `<a href="${page}"><img src="${publicUrl}${toFilePath('/chart.svg')}" alt="${alt}" width="760"></a>`))}`
}

/** Renders content that is folded at first, so that the font of texts to copy is loaded only when it is needed. */
const renderFolded = (label: string, content: Html): Html =>
  html`<details><summary>${label}</summary>${content}</details>`
