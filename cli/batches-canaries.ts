import type { Command } from 'commander'
import type { CanaryReport } from '../src/operate/canaries.ts'
import { stopOnSignals, told } from './engine.ts'
import { Failed, WrongUse } from './failure.ts'
import { withExample, withGlobals } from './help.ts'
import { DATA, type Flags, openLog, readSettings } from './operate-config.ts'
import { progressBar } from './progress.ts'
import { globalsOf } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { printFacts, printTable } from './table.ts'

type CanaryFlags = Flags & { author: string; verifier: string; level?: string; budget?: string }

/** What models see of known tasks, good and bad: no server, no repository, no sandbox. */
export function addCanariesCommand(batches: Command, shell: Shell): void {
  withExample(
    withGlobals(batches.command('canaries'), '--json')
      .description('Measure what an author and a verifier model make of tasks that are known to be good or bad')
      .requiredOption(
        '--author <catalogId>',
        'the model that writes instructions; its key is taken from the environment',
      )
      .requiredOption('--verifier <catalogId>', 'the model that checks tasks; best of another house')
      .option('--level <level>', "how hard both are asked to think; else the catalog's default")
      .option('--budget <usd>', 'what all of it may cost; at this much nothing more is asked')
      .option(...DATA)
      .action((flags: CanaryFlags, command: Command) => canaries(shell, flags, command)),
    'assay batches canaries --author anthropic/claude-sonnet-5 --verifier openai/gpt-6-sol',
  )
}

async function canaries(shell: Shell, flags: CanaryFlags, command: Command): Promise<void> {
  const config = await readSettings(shell, flags)
  const log = await openLog(shell, config, 'warn')
  const { measureCanaries } = await import('../src/operate/canaries.ts')
  using stop = stopOnSignals()
  const progress = progressBar(shell)
  const { author, verifier, level } = flags
  const wish = {
    ...{ models: { author, verifier }, level, budgetUsd: dollars(flags.budget), signal: stop.signal },
    onDone: (done: number, of: number) => progress.show(done, of, 'canaries'),
  }
  const report = await measureCanaries(config, log, wish).catch(told(stop.signal)).finally(progress.end)
  if (globalsOf(command).json) printJson(shell, report)
  else show(shell, report)
  if (!report.isEnough) throw new Failed()
}

function dollars(budget: string | undefined): number | undefined {
  const usd = budget === undefined ? undefined : Number(budget)
  if (usd !== undefined && !(usd >= 0)) throw new WrongUse('--budget takes dollars, for example 5.')
  return usd
}

type Figure = CanaryReport['figures'][number]
type Result = CanaryReport['results'][number]

/** What is right, and what is wrong, of each kind. */
const WORDS: Record<Figure['group'], [what: string, right: string, wrong: string]> = {
  defects: ['known-bad tasks, by the verifier', 'caught', 'missed'],
  controls: ['known-good tasks, by the verifier', 'accepted', 'false alarms'],
  traps: ['text that an author must not repeat', 'caught', 'missed'],
  written: ['instructions of the author, by the verifier', 'accepted', 'not accepted'],
}

function show(shell: Shell, report: CanaryReport): void {
  printTable<Figure>(shell, report.figures, [
    ['WHAT', ({ group }) => WORDS[group][0]],
    ['OF', ({ of }) => String(of)],
    ['RIGHT', rightOf],
    ['WRONG', (figure) => counted(figure, `${figure.wrong} ${WORDS[figure.group][2]}`)],
    ['UNREAD', (figure) => counted(figure, String(figure.unread))],
    ['RATE', rateOf],
    ['WANTED', ({ target }) => (target === null ? '-' : percent(target))],
  ])
  const wrong = report.results.filter(({ outcome }) => outcome === 'wrong' || outcome === 'unread')
  if (wrong.length > 0) showWrong(shell, wrong)
  print(shell, '')
  printFacts(shell, [
    ['author', askedOf(report.author)],
    ['verifier', askedOf(report.verifier)],
  ])
  if (report.isSelfVerified) note(shell, 'Author and verifier are of one house: the same mistakes may be overlooked.')
  const missing = report.results.filter(({ outcome }) => outcome === 'unasked').map(({ detail }) => detail)
  for (const why of new Set(missing)) note(shell, `not measured: ${why}`)
}

/** Of what was never asked no number means anything. */
const counted = ({ of, unasked }: Figure, text: string): string => (unasked === of ? '-' : text)

function rightOf(figure: Figure): string {
  const { group, right, named } = figure
  return counted(figure, `${right} ${WORDS[group][1]}${named === null ? '' : `, ${named} for the reason`}`)
}

const rateOf = ({ rate }: Figure): string => (rate === null ? 'not measured' : percent(rate))

const percent = (share: number): string => `${Math.floor(share * 100)} %`

function showWrong(shell: Shell, results: readonly Result[]): void {
  print(shell, '')
  printTable<Result>(shell, results, [
    ['NOT RIGHT', ({ group, outcome }) => (outcome === 'unread' ? outcome : WORDS[group][2])],
    ['TASK', ({ task }) => task],
    ['CANARY', ({ name }) => name],
    ['EXPECTED', ({ expected }) => expected ?? '-'],
    ['SAID', ({ reason, detail }) => [reason, detail].filter(Boolean).join(': ').slice(0, SAID_MAX) || 'nothing'],
  ])
}

const SAID_MAX = 100

const askedOf = ({ catalogId, level, calls, costMicros }: CanaryReport['author']): string =>
  `${catalogId} (${level}), ${calls} calls, ${costMicros === null ? 'cost unknown' : `$${(costMicros / 1e6).toFixed(6)}`}`
