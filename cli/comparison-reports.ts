import type { Comparison, ComparisonSetting, ComparisonTrial } from '../src/comparisons/shapes/schema.ts'
import { printable } from '../src/platform/terminal-text.ts'

export const REPORT_FORMATS = ['table', 'markdown', 'junit'] as const
export type ReportFormat = (typeof REPORT_FORMATS)[number]

/** Formats the results of a comparison as Markdown, for the summary of a build or a comment on a pull request. */
export function formatMarkdown({ id, state, settings, frontier, answer, costUsd, trials }: Comparison): string[] {
  const rows = settings.map((setting) => [
    quoteCode(setting.id),
    `${setting.passed}/${setting.tasks}`,
    formatPercent(setting.accuracy),
    setting.stats.ci95 ? `${setting.stats.ci95.low.toFixed(0)}–${setting.stats.ci95.high.toFixed(0)} %` : '',
    setting.costPerTaskUsd === null ? '' : `$${setting.costPerTaskUsd.toFixed(4)}`,
    String(setting.trials.errored),
    frontier.includes(setting.id) ? 'yes' : '',
  ])
  const heading = ['setting', 'passed', 'accuracy', '95 %', 'per task', 'errored', 'frontier']
  return [
    ...(answer ? [escapeMarkdown(answer.text), ''] : []),
    ...[heading, heading.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`),
    '',
    `Comparison ${quoteCode(id)} is ${state}: ${trials.total} trials, $${costUsd.toFixed(4)}.`,
  ]
}

const formatPercent = (value: number | null): string => (value === null ? '' : `${value.toFixed(1)} %`)

/** Formats text as code in a cell of a table. Escapes `|`, which setting ids contain and which would end the cell. */
const quoteCode = (text: string): string => `\`${printable(text).replaceAll('`', "'").replaceAll('|', '\\|')}\``

/**
 * Escapes text for Markdown. A zero-width space after @ and # prevents mentions, which code hosts find in the rendered
 * text.
 */
const escapeMarkdown = (text: string): string =>
  printable(text)
    .replaceAll(/[<>&[\]`*_\\]/g, '\\$&')
    .replaceAll(/[@#]/g, '$&\u200b')

/** Formats the trials of a comparison as JUnit XML: a suite per setting, a case per trial. Untrusted text is escaped. */
export function formatJunit({ settings }: Comparison, trials: readonly ComparisonTrial[]): string[] {
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<testsuites name="assay">',
    ...settings.flatMap((setting) =>
      formatSuite(
        setting,
        trials.filter(({ settingId }) => settingId === setting.id),
      ),
    ),
    '</testsuites>',
  ]
}

function formatSuite({ id }: ComparisonSetting, trials: readonly ComparisonTrial[]): string[] {
  const count = (...states: ComparisonTrial['state'][]) => trials.filter(({ state }) => states.includes(state)).length
  const seconds = trials.reduce((sum, { timings }) => sum + (timings.total ?? 0), 0)
  const counts = `tests="${trials.length}" failures="${count('failed')}" errors="${count('errored')}" skipped="${count('queued', 'running', 'canceled')}"`
  return [
    `  <testsuite name="${escapeXml(id)}" ${counts} time="${seconds.toFixed(3)}">`,
    ...trials.flatMap((trial) => formatCase(id, trial)),
    '  </testsuite>',
  ]
}

function formatCase(suite: string, trial: ComparisonTrial): string[] {
  const name = trial.attempt === 1 ? trial.task.name : `${trial.task.name} (attempt ${trial.attempt})`
  const opening = `    <testcase classname="${escapeXml(suite)}" name="${escapeXml(name)}" time="${(trial.timings.total ?? 0).toFixed(3)}"`
  if (trial.state === 'passed') return [`${opening}/>`]
  const reason = escapeXml(trial.explanation ?? trial.error ?? trial.state)
  const element = JUNIT_ELEMENTS[trial.state]
  return [
    `${opening}>`,
    element === 'skipped'
      ? `      <skipped message="${escapeXml(trial.state)}"/>`
      : `      <${element} type="${trial.class ?? trial.state}" message="${reason}">assay trials show ${trial.id}</${element}>`,
    '    </testcase>',
  ]
}

/** Elements of JUnit for the states of trials that did not pass. */
const JUNIT_ELEMENTS: Record<Exclude<ComparisonTrial['state'], 'passed'>, 'failure' | 'error' | 'skipped'> = {
  failed: 'failure',
  errored: 'error',
  queued: 'skipped',
  running: 'skipped',
  canceled: 'skipped',
}

const escapeXml = (text: string): string =>
  printable(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
