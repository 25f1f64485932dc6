import { html } from 'hono/html'
import type { Card, SettingSummary } from '../../src/results/schema.ts'
import { round } from './chart-scale.ts'
import {
  formatInterval,
  formatLanguage,
  type Html,
  listExtras,
  nameHarness,
  nameLevel,
  parseSettingId,
  percent,
  plural,
  publisherPath,
  renderDate,
  renderName,
  repositoryPath,
  usd,
  withQuery,
} from './format.ts'
import { RECOMMENDATION_TASKS_MIN, ROLE_ORDER, ROLES } from './picks.ts'

/** Renders the newest release of one publisher for a repository as a card: its first pick, and a small chart. */
export function renderResultCard(card: Card, language: string | null): Html {
  const { repository, publisher, releasedAt, tasks, settings, picks, frontier, endorsed, defaultLine } = card
  const href = withQuery(repositoryPath(repository.fullName), { publisher: defaultLine ? undefined : publisher.login })
  const [firstPick] = ROLE_ORDER.flatMap((role) =>
    picks.filter(({ roles }) => roles.includes(role)).map(({ setting }) => ({ role, setting })),
  )
  return html`<li class="card result"><div class="result-head"><h2><a class="quiet" href="${href}">${renderName(repository.fullName)}</a></h2>${drawSparkFrontier(frontier)}</div>
${firstPick ? renderPick(firstPick, tasks) : ''}
<p class="small muted"><a class="plain" href="${publisherPath(publisher.login)}">${renderName(publisher.login)}</a>${endorsed ? html` <span class="chip">endorsed</span>` : ''} · ${language ? html`${formatLanguage(language)} · ` : ''}${plural(settings, 'setting')} <span class="nowrap">· ${renderDate(releasedAt)}</span></p></li>`
}

function renderPick({ role, setting }: { role: string; setting: SettingSummary }, tasks: number): Html {
  const { id, model, accuracy, costPerTaskUsd, ci95 } = setting
  const { harness, level } = parseSettingId(id)
  return html`<p class="role">${ROLES[role]}${tasks < RECOMMENDATION_TASKS_MIN ? html` <span class="muted">too few tasks to recommend</span>` : ''}</p>
<p><strong>${renderName(model.label, 40)}</strong><br><span class="muted small">${renderName(nameHarness(harness), 30)} · ${renderName(nameLevel(level), 20)}${listExtras(id).map((extra) => html` · ${renderName(extra, 30)}`)}</span></p>
<p><span class="figure">${percent(accuracy)}</span> ${ci95 ? html`<span class="faint small">${formatInterval(ci95)}</span> ` : ''}<span class="muted small">of ${plural(tasks, 'task')}</span> · <span class="figure">${usd(costPerTaskUsd)}</span> <span class="muted small">per task</span></p>`
}

const SPARK_WIDTH = 96
const SPARK_HEIGHT = 40
const SPARK_EDGE = 5
/** Costs below this are drawn at this cost, because a logarithm of 0 does not exist. */
const SPARK_COST_MIN_USD = 1e-6

/** Draws a frontier as a small step line without axes. Hidden from screen readers, which read the numbers beside it. */
function drawSparkFrontier(frontier: readonly SettingSummary[]): Html {
  const [first, ...rest] = frontier
  if (!first) return html``
  const toLogCost = ({ costPerTaskUsd }: SettingSummary) => Math.log10(Math.max(costPerTaskUsd, SPARK_COST_MIN_USD))
  const costs = frontier.map(toLogCost)
  const [cheapest, dearest] = [Math.min(...costs), Math.max(...costs)]
  const toX = (setting: SettingSummary): number =>
    round(SPARK_EDGE + ((toLogCost(setting) - cheapest) / (dearest - cheapest || 1)) * (SPARK_WIDTH - 4 * SPARK_EDGE))
  const accuracies = frontier.map(({ accuracy }) => accuracy)
  const [worst, best] = [Math.min(...accuracies), Math.max(...accuracies)]
  const toY = ({ accuracy }: SettingSummary): number =>
    round(SPARK_HEIGHT - SPARK_EDGE - ((accuracy - worst) / (best - worst || 1)) * (SPARK_HEIGHT - 2 * SPARK_EDGE))
  const steps = rest.map((each) => `H${toX(each)}V${toY(each)}`).join('')
  return html`<svg class="spark" viewBox="0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}" width="${SPARK_WIDTH}" height="${SPARK_HEIGHT}" aria-hidden="true"><path class="steps" d="M${toX(first)},${toY(first)}${steps}H${SPARK_WIDTH - SPARK_EDGE}"/>${frontier.map(
    (each) => html`<circle cx="${toX(each)}" cy="${toY(each)}" r="3"/>`,
  )}</svg>`
}
