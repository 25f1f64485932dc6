import type { Quote, QuotedSetting } from '../src/comparisons/costs/schema.ts'
import { requireConfirmation, type YesFlag } from './confirm.ts'
import { Canceled } from './failure.ts'
import { note, type Shell } from './shell.ts'
import { alignColumns, formatCount } from './table.ts'
import { formatDuration } from './watch-comparison.ts'

/** Prints the quote to standard error and asks on a terminal. Throws `Canceled` unless the answer is yes. */
export async function confirmQuote(
  shell: Shell,
  quote: Quote,
  flags: YesFlag,
  question = 'Start this comparison?',
): Promise<void> {
  note(shell, ...formatQuote(quote))
  try {
    await requireConfirmation(shell, question, flags)
  } catch (error) {
    if (error instanceof Canceled) note(shell, 'Nothing was started.')
    throw error
  }
}

/** Formats a quote: the number of trials, a table of the settings, the total cost, and advice. */
export function formatQuote(quote: Quote): string[] {
  return [
    formatSize(quote),
    ...alignColumns([HEADINGS, ...quote.perSetting.map(toCells)]),
    formatCost(quote),
    ...listBudgetWarnings(quote),
    quote.advice,
  ]
}

function formatSize({ tasks, settings, trials, durationSeconds, concurrency }: Quote): string {
  const attempts = trials / (tasks * settings)
  const factors = [formatCount(tasks, 'task'), formatCount(settings, 'setting'), formatCount(attempts, 'attempt')].join(
    ' × ',
  )
  return `${formatCount(trials, 'trial')} (${factors}), about ${formatDuration(durationSeconds)} with ${concurrency} at a time`
}

const HEADINGS = ['SETTING', 'EXPECTED', 'RANGE', 'MAXIMUM', 'SOURCE', 'PER TRIAL']

const toCells = ({ settingId, costUsd, maximumCostUsd, source, measuredTrials, ...setting }: QuotedSetting) => [
  settingId,
  formatUsd(costUsd.expected),
  `${formatUsd(costUsd.low)}-${formatUsd(costUsd.high)}`,
  maximumCostUsd === null ? '-' : formatUsd(maximumCostUsd),
  source === 'measured' ? `${source} (${formatCount(measuredTrials, 'trial')})` : source,
  formatDuration(Math.ceil(setting.secondsPerTrial)),
]

function formatCost({ costUsd: { low, expected, high }, maximumCostUsd }: Quote): string {
  if (high === 0) return 'Expected cost: $0.00'
  const limit = maximumCostUsd === null ? 'no limit is set' : `at most ${formatUsd(maximumCostUsd)}`
  return `Expected cost: ${formatUsd(expected)} (${formatUsd(low)} to ${formatUsd(high)}); ${limit}`
}

/** Warns if the budget is below the expected cost. A trial budget is part of the expected cost and causes no warning. */
const listBudgetWarnings = ({ costUsd: { expected }, maximumCostUsd }: Quote): string[] =>
  maximumCostUsd !== null && maximumCostUsd < expected
    ? ['The budget is below the expected cost: the comparison will probably pause before all trials have run.']
    : []

const formatUsd = (amount: number): string => `$${amount.toFixed(amount > 0 && amount < 0.01 ? 4 : 2)}`
