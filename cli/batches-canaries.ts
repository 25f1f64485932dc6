import type { Command } from 'commander'
import type { CanaryReport } from '../src/operate/canaries.ts'
import { rethrowForExitCode, stopOnSignals } from './engine.ts'
import { Failed, WrongUse } from './failure.ts'
import { withExample, withGlobals } from './help.ts'
import { DATA, type Flags, openLog, readSettings } from './operate-config.ts'
import { createProgressBar } from './progress.ts'
import { readGlobals } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { printFacts, printTable } from './table.ts'

type CanaryFlags = Flags & { author: string; verifier: string; level?: string; budget?: string }

/** Adds the command that measures models on known good and bad tasks. It needs no server, repository or sandbox. */
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
  const report = await measureCanaries(config, log, request)
    .catch(rethrowForExitCode(stop.signal))
    .finally(progress.end)
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

/** Titles of the groups of canaries, and the words for right and wrong results in each. */
const GROUP_LABELS: Record<ReportedFigure['group'], { title: string; right: string; wrong: string }> = {
  defects: { title: 'known-bad tasks (verifier)', right: 'caught', wrong: 'missed' },
  controls: { title: 'known-good tasks (verifier)', right: 'accepted', wrong: 'false alarms' },
  traps: { title: 'text that an author must not repeat (author)', right: 'caught', wrong: 'missed' },
  written: { title: 'instructions of the author (verifier)', right: 'accepted', wrong: 'not accepted' },
}

function printReport(shell: Shell, report: CanaryReport): void {
  printTable<ReportedFigure>(shell, report.figures, [
    ['GROUP', ({ group }) => GROUP_LABELS[group].title],
    ['CANARIES', ({ of }) => String(of)],
    ['RIGHT', formatRight],
    ['WRONG', (figure) => orDash(figure, `${figure.wrong} ${GROUP_LABELS[figure.group].wrong}`)],
    ['UNUSABLE', (figure) => orDash(figure, String(figure.unread))],
    ['RATE', formatRate],
    ['TARGET', ({ target }) => (target === null ? '-' : percent(target))],
  ])
  const wrongResults = report.results.filter(({ outcome }) => outcome === 'wrong' || outcome === 'unread')
  if (wrongResults.length > 0) printWrongResults(shell, wrongResults)
  print(shell, '')
  printFacts(shell, [
    ['author', formatModel(report.author)],
    ['verifier', formatModel(report.verifier)],
  ])
  if (report.isSelfVerified)
    note(shell, 'Author and verifier have the same provider and may overlook the same mistakes.')
  const unmeasured = report.results.filter(({ outcome }) => outcome === 'unasked').map(({ detail }) => detail)
  for (const reason of new Set(unmeasured)) note(shell, `not measured: ${reason}`)
}

/** Returns the text, or a dash if nothing of the group was measured. */
const orDash = ({ of, unasked }: ReportedFigure, text: string): string => (unasked === of ? '-' : text)

function formatRight(figure: ReportedFigure): string {
  const { group, right, named } = figure
  return orDash(
    figure,
    `${right} ${GROUP_LABELS[group].right}${named === null ? '' : `, ${named} for the expected reason`}`,
  )
}

const formatRate = ({ rate }: ReportedFigure): string => (rate === null ? 'not measured' : percent(rate))

const percent = (share: number): string => `${Math.floor(share * 100)} %`

function printWrongResults(shell: Shell, results: readonly ReportedResult[]): void {
  print(shell, '')
  printTable<ReportedResult>(shell, results, [
    ['RESULT', ({ group, outcome }) => (outcome === 'unread' ? outcome : GROUP_LABELS[group].wrong)],
    ['TASK', ({ task }) => task],
    ['CANARY', ({ name }) => name],
    ['EXPECTED', ({ expected }) => expected ?? '-'],
    [
      'ANSWER',
      ({ reason, detail }) => [reason, detail].filter(Boolean).join(': ').slice(0, DETAIL_LENGTH_MAX) || 'nothing',
    ],
  ])
}

const DETAIL_LENGTH_MAX = 100

const formatModel = ({ catalogId, level, calls, costMicros }: CanaryReport['author']): string =>
  `${catalogId} (${level}), ${calls} calls, ${costMicros === null ? 'cost unknown' : `$${(costMicros / 1e6).toFixed(6)}`}`
