import type { Command } from 'commander'
import type { CanaryReport } from '../src/operate/canaries.ts'
import { stopOnSignals, throwReported } from './engine.ts'
import { Failed, WrongUse } from './failure.ts'
import { withExample, withGlobals } from './help.ts'
import { DATA, type Flags, openLog, readSettings } from './operate-config.ts'
import { createProgressBar } from './progress.ts'
import { readGlobals } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { printFacts, printTable } from './table.ts'

type CanaryFlags = Flags & { author: string; verifier: string; level?: string; budget?: string }

/** Measures models on known good and bad tasks. Needs no server, repository or sandbox. */
export function addCanariesCommand(batches: Command, shell: Shell): void {
  withExample(
    withGlobals(batches.command('canaries'), '--json')
      .description('Measure author and verifier models on tasks that are known to be good or bad')
      .requiredOption('--author <catalogId>', 'Model that writes instructions; its key is read from the environment')
      .requiredOption('--verifier <catalogId>', 'Model that reviews tasks; preferably of another provider')
      .option('--level <level>', "Reasoning level of both models (default: the catalog's)")
      .option('--budget <usd>', 'Spend at most this much on model calls (USD)')
      .option(...DATA)
      .action((flags: CanaryFlags, command: Command) => runCanaries(shell, flags, command)),
    'assay batches canaries --author anthropic/claude-sonnet-5 --verifier openai/gpt-6-sol',
  )
}

async function runCanaries(shell: Shell, flags: CanaryFlags, command: Command): Promise<void> {
  const config = await readSettings(shell, flags)
  const log = await openLog(shell, config, 'warn')
  const { measureCanaries } = await import('../src/operate/canaries.ts')
  using stop = stopOnSignals()
  const progress = createProgressBar(shell)
  const { author, verifier, level } = flags
  const request = {
    models: { author, verifier },
    level,
    budgetUsd: parseBudget(flags.budget),
    signal: stop.signal,
    onDone: (done: number, of: number) => progress.show(done, of, 'canaries'),
  }
  const report = await measureCanaries(config, log, request).catch(throwReported(stop.signal)).finally(progress.end)
  if (readGlobals(command).json) printJson(shell, report)
  else printReport(shell, report)
  if (!report.isEnough) throw new Failed()
}

function parseBudget(budget: string | undefined): number | undefined {
  const usd = budget === undefined ? undefined : Number(budget)
  if (usd !== undefined && !(usd >= 0)) throw new WrongUse('--budget must be an amount in USD, for example 5.')
  return usd
}

type ReportedFigure = CanaryReport['figures'][number]
type ReportedResult = CanaryReport['results'][number]

/** Row title and the words for right and wrong results of each group. */
const LABELS: Record<ReportedFigure['group'], [title: string, right: string, wrong: string]> = {
  defects: ['known-bad tasks (verifier)', 'caught', 'missed'],
  controls: ['known-good tasks (verifier)', 'accepted', 'false alarms'],
  traps: ['text that an author must not repeat (author)', 'caught', 'missed'],
  written: ['instructions of the author (verifier)', 'accepted', 'not accepted'],
}

function printReport(shell: Shell, report: CanaryReport): void {
  printTable<ReportedFigure>(shell, report.figures, [
    ['GROUP', ({ group }) => LABELS[group][0]],
    ['CANARIES', ({ of }) => String(of)],
    ['RIGHT', formatRight],
    ['WRONG', (figure) => orDash(figure, `${figure.wrong} ${LABELS[figure.group][2]}`)],
    ['UNUSABLE', (figure) => orDash(figure, String(figure.unread))],
    ['RATE', formatRate],
    ['TARGET', ({ target }) => (target === null ? '-' : percent(target))],
  ])
  const wrong = report.results.filter(({ outcome }) => outcome === 'wrong' || outcome === 'unread')
  if (wrong.length > 0) printWrongResults(shell, wrong)
  print(shell, '')
  printFacts(shell, [
    ['author', formatModel(report.author)],
    ['verifier', formatModel(report.verifier)],
  ])
  if (report.isSelfVerified)
    note(shell, 'Author and verifier have the same provider and may overlook the same mistakes.')
  const missing = report.results.filter(({ outcome }) => outcome === 'unasked').map(({ detail }) => detail)
  for (const reason of new Set(missing)) note(shell, `not measured: ${reason}`)
}

/** Returns a dash if nothing was measured. */
const orDash = ({ of, unasked }: ReportedFigure, text: string): string => (unasked === of ? '-' : text)

function formatRight(figure: ReportedFigure): string {
  const { group, right, named } = figure
  return orDash(figure, `${right} ${LABELS[group][1]}${named === null ? '' : `, ${named} for the expected reason`}`)
}

const formatRate = ({ rate }: ReportedFigure): string => (rate === null ? 'not measured' : percent(rate))

const percent = (share: number): string => `${Math.floor(share * 100)} %`

function printWrongResults(shell: Shell, results: readonly ReportedResult[]): void {
  print(shell, '')
  printTable<ReportedResult>(shell, results, [
    ['RESULT', ({ group, outcome }) => (outcome === 'unread' ? outcome : LABELS[group][2])],
    ['TASK', ({ task }) => task],
    ['CANARY', ({ name }) => name],
    ['EXPECTED', ({ expected }) => expected ?? '-'],
    ['ANSWER', ({ reason, detail }) => [reason, detail].filter(Boolean).join(': ').slice(0, DETAIL_MAX) || 'nothing'],
  ])
}

const DETAIL_MAX = 100

const formatModel = ({ catalogId, level, calls, costMicros }: CanaryReport['author']): string =>
  `${catalogId} (${level}), ${calls} calls, ${costMicros === null ? 'cost unknown' : `$${(costMicros / 1e6).toFixed(6)}`}`
