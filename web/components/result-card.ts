import { html } from 'hono/html'
import type { Card, SettingSummary } from '../../src/results/schema.ts'
import {
  formatInterval,
  formatLanguage,
  type Html,
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
import { drawSparkFrontier } from './spark-frontier.ts'

/** Renders the newest release of one publisher as a card: its first pick, and a small chart. */
export function renderResultCard(card: Card, language: string | null): Html {
  const { repository, publisher, releasedAt, tasks, settings, picks, frontier, endorsed, defaultLine } = card
  const href = withQuery(repositoryPath(repository.fullName), { publisher: defaultLine ? undefined : publisher.login })
  const [first] = ROLE_ORDER.flatMap((role) =>
    picks.filter(({ roles }) => roles.includes(role)).map(({ setting }) => ({ role, setting })),
  )
  return html`<li class="card result"><div class="result-head"><h2><a class="quiet" href="${href}">${renderName(repository.fullName)}</a></h2>${drawSparkFrontier(frontier)}</div>
${first ? renderPick(first, tasks) : ''}
<p class="small muted"><a class="plain" href="${publisherPath(publisher.login)}">${renderName(publisher.login)}</a>${endorsed ? html` <span class="chip">endorsed</span>` : ''} · ${language ? html`${formatLanguage(language)} · ` : ''}${plural(settings, 'setting')} <span class="nowrap">· ${renderDate(releasedAt)}</span></p></li>`
}

function renderPick({ role, setting }: { role: string; setting: SettingSummary }, tasks: number): Html {
  const { id, model, accuracy, costPerTaskUsd, ci95 } = setting
  const { harness, level, configuration } = parseSettingId(id)
  return html`<p class="role">${ROLES[role]}${tasks < RECOMMENDATION_TASKS_MIN ? html` <span class="muted">too few tasks to recommend</span>` : ''}</p>
<p><strong>${renderName(model.label, 40)}</strong><br><span class="muted small">${renderName(nameHarness(harness), 30)} · ${renderName(nameLevel(level), 20)}${configuration === '' ? '' : html` · ${renderName(configuration, 30)}`}</span></p>
<p><span class="figure">${percent(accuracy)}</span> ${ci95 ? html`<span class="faint small">${formatInterval(ci95)}</span> ` : ''}<span class="muted small">of ${plural(tasks, 'task')}</span> · <span class="figure">${usd(costPerTaskUsd)}</span> <span class="muted small">per task</span></p>`
}
