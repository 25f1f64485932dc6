import { html } from 'hono/html'
import type { Release, ReleaseSetting } from '../../src/releases/shapes/schema.ts'
import {
  formatInterval,
  type Html,
  nameHarness,
  parseSettingId,
  percent,
  plural,
  renderName,
  renderProgram,
  usd,
} from './format.ts'

export type PickedSetting = { setting: ReleaseSetting; roles: readonly string[] }

/** Names of the roles of picks, in the order in which they are shown. */
export const ROLES: Record<string, string> = {
  'best-value': 'Use this',
  'most-accurate': 'Most accurate',
  cheapest: 'Cheapest on the frontier',
}
export const ROLE_ORDER: readonly string[] = Object.keys(ROLES)
/** Minimum number of tasks of a release that recommends a setting. */
export const RECOMMENDATION_TASKS_MIN = 20

/** Returns the picks with their settings, the recommended one first. */
export function toPickedSettings(release: Release, picks: readonly { id: string; roles: string[] }[]): PickedSetting[] {
  const compareRoles = (a: string, b: string) => ROLE_ORDER.indexOf(a) - ROLE_ORDER.indexOf(b)
  const pickedSettings = picks.flatMap(({ id, roles }) => {
    const setting = release.settings.find((each) => each.id === id)
    return setting ? [{ setting, roles: roles.toSorted(compareRoles) }] : []
  })
  return pickedSettings.toSorted((a, b) => compareRoles(a.roles[0] ?? '', b.roles[0] ?? ''))
}

export const findSettingByRole = (picks: readonly PickedSetting[], role: string): ReleaseSetting | undefined =>
  picks.find(({ roles }) => roles.includes(role))?.setting

/** Renders the recommendation as a sentence, or the most accurate setting if there are too few tasks to recommend one. */
export function renderAnswer({ repository, tasks }: Release, picks: readonly PickedSetting[]): Html {
  const shortName = repository.fullName.split('/').at(-1) ?? repository.fullName
  const mostAccurate = findSettingByRole(picks, 'most-accurate')
  const bestValue = findSettingByRole(picks, 'best-value')
  if (!mostAccurate) return html`<p class="answer">No setting of ${renderName(shortName)} is on the frontier.</p>`
  if (!bestValue)
    return html`<p class="answer">On ${renderName(shortName)}, ${renderSettingName(mostAccurate)} solved most: ${percent(mostAccurate.accuracy)} of ${plural(tasks, 'task')} for ${usd(mostAccurate.costPerTaskUsd)} each. <span class="muted">${tasks < RECOMMENDATION_TASKS_MIN ? 'That is too few tasks to recommend a setting.' : ''}</span></p>`
  return html`<p class="answer">On ${renderName(shortName)}, use ${renderSettingName(bestValue)}: it solves ${percent(bestValue.accuracy)} of ${plural(tasks, 'real task')} for ${usd(bestValue.costPerTaskUsd)} each. <span class="muted">${
    bestValue === mostAccurate
      ? 'No setting solved more, and every cheaper one on the frontier is measurably worse.'
      : html`It is the cheapest that is not measurably worse than the most accurate, ${renderName(mostAccurate.model.label, 40)} (${percent(mostAccurate.accuracy)}, ${usd(mostAccurate.costPerTaskUsd)}).`
  }</span></p>`
}

function renderExtras(id: string): Html {
  const { configuration, timeLimits } = parseSettingId(id)
  return html`${configuration === '' ? '' : html`, configured as ${renderName(configuration, 40)}`}${timeLimits === '' ? '' : html`, with ${timeLimits}`}`
}

const renderSettingName = ({ id, model, harness, reasoningLevel }: ReleaseSetting): Html =>
  html`<strong class="recommended">${renderName(model.label, 60)} with ${renderName(nameHarness(harness), 40)} ${reasoningLevel === 'none' ? 'and no' : html`at ${renderName(reasoningLevel, 20)}`} reasoning${renderExtras(id)}</strong>`

export const renderPicks = (release: Release, picks: readonly PickedSetting[]): Html =>
  picks.length === 0
    ? html``
    : html`<section aria-labelledby="picks-title"><h2 class="hidden" id="picks-title">Picks</h2>
<ul class="picks">${picks.map((pick) => renderPick(release, pick, picks))}</ul></section>`

function renderPick(release: Release, { setting, roles }: PickedSetting, picks: readonly PickedSetting[]): Html {
  const { model, custom, accuracy, costPerTaskUsd, stats } = setting
  return html`<li class="card pick">
<p class="role">${roles.map((role) => ROLES[role] ?? role).join(' · ')}</p>
<h3>${renderName(model.label, 60)}</h3>
<p class="muted small">${renderProgram(setting)}${custom ? html` · <span class="chip">custom model</span>` : ''}</p>
<dl><div><dt>solves</dt><dd>${percent(accuracy)} ${stats.ci95 ? html`<span class="faint small">${formatInterval(stats.ci95)}</span>` : ''}</dd></div>
<div><dt>per task</dt><dd>${usd(costPerTaskUsd)}</dd></div></dl>
<p class="small muted">${explainPick(release, setting, picks)}</p></li>`
}

/**
 * Explains a pick in one sentence: by comparing it with the recommended or the most accurate setting, or by how certain its
 * place on the frontier is.
 */
function explainPick({ tasks }: Release, setting: ReleaseSetting, picks: readonly PickedSetting[]): string {
  const [mostAccurate, bestValue] = [findSettingByRole(picks, 'most-accurate'), findSettingByRole(picks, 'best-value')]
  const hasCheaperAlternative = bestValue && bestValue !== setting && bestValue.costPerTaskUsd > 0
  if (setting === mostAccurate && hasCheaperAlternative) return explainMostAccurate(setting, bestValue)
  if (mostAccurate && setting !== mostAccurate && mostAccurate.costPerTaskUsd > 0)
    return explainCheaper(setting, mostAccurate, setting === bestValue)
  const { frontierProbability } = setting.stats
  return frontierProbability === null
    ? `Measured on ${plural(tasks, 'task')}.`
    : `On the frontier in ${percent(100 * frontierProbability)} of cases if the tasks were drawn again.`
}

function explainMostAccurate(mostAccurate: ReleaseSetting, bestValue: ReleaseSetting): string {
  const points = Math.round(mostAccurate.accuracy - bestValue.accuracy)
  const costFactor = Number((mostAccurate.costPerTaskUsd / bestValue.costPerTaskUsd).toPrecision(2))
  return `${points === 0 ? 'As accurate' : `${plural(points, 'point')} more`} for ${costFactor} times the cost; not measurably better.`
}

function explainCheaper(setting: ReleaseSetting, mostAccurate: ReleaseSetting, isRecommended: boolean): string {
  const points = Math.round(mostAccurate.accuracy - setting.accuracy)
  const costShare = percent((100 * setting.costPerTaskUsd) / mostAccurate.costPerTaskUsd)
  const accuracy = points === 0 ? 'As accurate as the best' : `${plural(points, 'point')} below the best`
  return `${accuracy}${isRecommended && points > 0 ? ', not measurably worse' : ''}, at ${costShare} of its cost.`
}
