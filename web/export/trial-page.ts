import { html } from 'hono/html'
import type { ComparisonTrial } from '../../src/comparisons/shapes/schema.ts'
import { type ParsedTrajectory, parseTrajectory, type TraceEvent } from '../app/trials/trajectory.ts'
import { toDiffLineKind } from '../components/diff-line.ts'
import { formatCount, formatDuration, type Html, plural, usd } from '../components/format.ts'
import { renderDisplayText, renderExportPage, toDisplayText } from './layout.ts'

/** Untrusted texts of a trial's artifacts. Undefined if the trial has no such file. */
export type TrialTexts = {
  patch: string | undefined
  verifier: string | undefined
  trajectory: string | undefined
}

type TrialPageOptions = {
  trial: ComparisonTrial
  texts: TrialTexts
  settingName: string
  /** Other trials of the same task. */
  others: readonly { trial: ComparisonTrial; settingName: string }[]
}

/** Renders a trial: the verdict and its explanation, then the evidence. */
export function renderTrialPage({ trial, texts, settingName, others }: TrialPageOptions): string {
  const { task, state, explanation, error, attempt, failedTests = [] } = trial
  const reason = explanation ?? error
  const content = html`<section><p class="where muted">${renderDisplayText(settingName)} · attempt ${attempt}</p>
<h1>${renderDisplayText(task.name)} <span class="chip ${state}">${state}</span></h1>
${reason === undefined ? '' : html`<p class="answer">${renderDisplayText(reason, 2000)}</p>`}
${renderFacts(trial)}</section>
${
  failedTests.length === 0
    ? ''
    : html`<section class="card panel"><h2>${plural(failedTests.length, 'failed test')}</h2><ul class="plain-list">${failedTests.map((test) => html`<li class="fail">× ${renderDisplayText(test, 300)}</li>`)}</ul></section>`
}
${renderPanel('Changes', texts.patch, renderPatch)}
${renderPanel('Output of the verifier', texts.verifier, renderVerifierOutput)}
${renderPanel('Trajectory', texts.trajectory, renderTrajectory)}
${renderOthers(others)}`
  return renderExportPage({ title: toDisplayText(task.name, 100), root: '../', content })
}

const renderPanel = (title: string, text: string | undefined, render: (text: string) => Html): Html =>
  html`<section class="card panel"><h2>${title}</h2>${text === undefined ? html`<p class="muted">Not recorded for this trial.</p>` : render(text)}</section>`

function renderFacts({ reward, costUsd, timings, usage, verifyMode, class: trialClass, id }: ComparisonTrial): Html {
  const facts: [string, string][] = [
    ['reward', reward === null ? 'none' : String(reward)],
    ['class', trialClass?.replaceAll('_', ' ') ?? '–'],
    ['cost', costUsd === null ? 'unknown' : usd(costUsd)],
    ['time', timings.total === null ? '–' : formatDuration(timings.total)],
    ['tokens', usage ? formatCount(usage.input + usage.cacheRead + usage.cacheWrite + usage.output) : '–'],
    ['verify mode', verifyMode ?? '–'],
    ['trial', id],
  ]
  return html`<dl class="facts">${facts.map(([label, value]) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`)}</dl>`
}

const PATCH_LINES_MAX = 3000
const LINE_LENGTH_MAX = 1000

function renderPatch(text: string): Html {
  if (text.trim() === '') return html`<p>The agent changed no file.</p>`
  const lines = text.split('\n')
  return html`<pre class="lines" tabindex="0">${lines
    .slice(0, PATCH_LINES_MAX)
    .map(
      (line) => html`<span class="${toDiffLineKind(line) ?? ''}">${`${toDisplayText(line, LINE_LENGTH_MAX)}\n`}</span>`,
    )}</pre>${
    lines.length > PATCH_LINES_MAX
      ? html`<p class="small muted">${plural(lines.length - PATCH_LINES_MAX, 'more line')}.</p>`
      : ''
  }`
}

const VERIFIER_LINES_MAX = 400

/** Renders the end of the output, where most test runners print their summary. */
function renderVerifierOutput(text: string): Html {
  const lines = text.trimEnd().split('\n')
  const shown = lines.slice(-VERIFIER_LINES_MAX).map((line) => toDisplayText(line, LINE_LENGTH_MAX))
  return html`${lines.length > shown.length ? html`<p class="small muted">The last ${VERIFIER_LINES_MAX} of ${plural(lines.length, 'line')}.</p>` : ''}<pre class="lines" tabindex="0">${shown.join('\n')}</pre>`
}

const EVENTS_MAX = 1500
/** Longer texts are folded. */
const UNFOLDED_LENGTH_MAX = 1200

function renderTrajectory(text: string): Html {
  const { agent, events } = parseOrEmpty(text)
  if (events.length === 0) return html`<p class="muted">The trajectory contains no events.</p>`
  return html`<p class="small muted">${renderDisplayText(agent)} · ${plural(events.length, 'event')}${events.length > EVENTS_MAX ? `, the first ${formatCount(EVENTS_MAX)} are shown` : ''}</p>
<ol class="events">${events.slice(0, EVENTS_MAX).map(renderEvent)}</ol>`
}

/** Parses a trajectory. One that is not valid JSON has no events. */
function parseOrEmpty(text: string): Pick<ParsedTrajectory, 'agent' | 'events'> {
  try {
    return parseTrajectory(text)
  } catch {
    return { agent: '', events: [] }
  }
}

const renderEvent = ({ step, kind, label, text, isError }: TraceEvent): Html =>
  html`<li class="event ${kind}${isError ? ' error' : ''}"><span class="small muted">${step} · ${renderDisplayText(label, 60)}${isError ? ' · error' : ''}</span>${
    text.length > UNFOLDED_LENGTH_MAX
      ? html`<details><summary>${renderDisplayText(text, 160)}</summary><pre tabindex="0">${toDisplayText(text)}</pre></details>`
      : html`<pre tabindex="0">${toDisplayText(text)}</pre>`
  }</li>`

const renderOthers = (others: TrialPageOptions['others']): Html =>
  others.length === 0
    ? html``
    : html`<section class="card panel"><h2>Other trials of this task</h2><ul class="plain-list">${others.map(
        ({ trial, settingName }) =>
          html`<li><a href="${trial.id}.html">${renderDisplayText(settingName)}, attempt ${trial.attempt}</a> <span class="chip ${trial.state}">${trial.state}</span></li>`,
      )}</ul></section>`
