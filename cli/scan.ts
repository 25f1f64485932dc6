import { homedir } from 'node:os'
import { join } from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import type { CloneScan } from '../src/taskgen/candidates/scan-clone.ts'
import { startHeartbeat } from './heartbeat.ts'
import { withExample, withGlobals } from './help.ts'
import { readGlobals } from './service.ts'
import { note, print, printJson, type Shell, styled } from './shell.ts'
import { alignColumns, formatCount } from './table.ts'

type ScanFunnel = CloneScan['funnel']
type ScanFlags = { branch?: string; limit?: number; list?: boolean; cache: boolean }

/** Adds `assay scan`, which executes nothing of the clone and needs no server, network or key. */
export function addScanCommand(assay: Command, shell: Shell): void {
  withExample(
    withGlobals(assay.command('scan'), '--json')
      .description('Count the merged pull requests of a clone that could become tasks, and why others cannot')
      .argument('<folder>', 'Git clone, bare or not')
      .option(
        '--branch <name>',
        "Branch to scan (default: the remote's default branch, otherwise the checked-out branch)",
      )
      .option('--limit <count>', 'Scan only the newest pull requests', parsePositive)
      .option('--list', 'List the candidates')
      .option('--no-cache', 'Do not use or write the scan cache')
      .action((folder: string, flags: ScanFlags, command: Command) => scan(shell, folder, flags, command)),
    'assay scan .',
    'assay scan ~/src/demo --limit 500 --list',
  )
}

function parsePositive(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number from 1 up.')
}

async function scan(shell: Shell, folder: string, flags: ScanFlags, command: Command): Promise<void> {
  const { scanClone } = await import('../src/taskgen/candidates/scan-clone.ts')
  const progress = createProgressLine(shell)
  const { branch, limit, cache } = flags
  const options = { branch, limit, cacheFolder: cache ? resolveCacheFolder(shell) : undefined, now: new Date() }
  const signal = new AbortController().signal
  const cloneScan = await scanClone(folder, { ...options, signal, onProgress: progress.show }).finally(progress.end)
  if (cache && !cloneScan.isCached) note(shell, 'The results could not be cached, so the next scan will take as long.')
  if (readGlobals(command).json) return printJson(shell, cloneScan)
  print(shell, ...formatFunnel(shell, cloneScan), ...(flags.list ? formatCandidates(cloneScan) : []))
  if (cloneScan.candidates.length > 0) note(shell, NEXT_STEP)
}

const NEXT_STEP =
  'Next: connect it to a service with `assay repos connect`, and create tasks with `assay batches create`.'

/** Explanation if the history has no recognised pull request. */
const NONE_RECOGNISED = [
  'A pull request is recognised by its commit, such as `Merge pull request #12 from …` or a subject that ends in `(#12)`',
  '(docs/batches.md lists all forms). Rebased pull requests are recognised if their heads are in the clone:',
  "  git fetch origin '+refs/pull/*/head:refs/pull/*/head'",
]

const resolveCacheFolder = ({ env }: Shell): string =>
  join(env.XDG_CACHE_HOME || join(env.HOME || homedir(), '.cache'), 'assay')

function formatFunnel(shell: Shell, { branch, isShallow, commits, funnel }: CloneScan): string[] {
  const { recognised } = funnel
  const bold = (text: string) => styled(shell.output, 'bold', text)
  return [
    ...(isShallow ? ['The clone is shallow: older history is not in it. Fetch it with `git fetch --unshallow`.'] : []),
    bold(
      `${formatCount(recognised, 'pull request')} recognised in ${formatCount(commits, 'commit')} of ${branch}${formatShare(recognised, commits)}`,
    ),
    ...(recognised === 0 ? NONE_RECOGNISED : formatRecognised(bold, funnel)),
  ]
}

function formatRecognised(
  bold: (text: string) => string,
  { recognised, marks, candidates, rejections }: ScanFunnel,
): string[] {
  const total = candidates.easy + candidates.medium + candidates.hard
  return [
    ...alignColumns(marks.map(({ mark, count }) => [`  ${mark}`, String(count)])),
    bold(`${formatCount(total, 'candidate')}${formatShare(total, recognised)}`),
    ...alignColumns(Object.entries(candidates).map(([difficulty, count]) => [`  ${difficulty}`, String(count)])),
    bold(`${recognised - total} rejected`),
    ...alignColumns(rejections.map(({ reason, count, meaning }) => [`  ${reason}`, String(count), meaning])),
  ]
}

const formatShare = (part: number, whole: number): string =>
  whole === 0 ? '' : ` (${Math.round((100 * part) / whole)} %)`

const formatCandidates = ({ candidates }: CloneScan): string[] =>
  alignColumns(
    candidates.map(({ number, difficulty, mergedAt, features, title }) => [
      number === null ? '-' : `#${number}`,
      difficulty,
      mergedAt.slice(0, 10),
      `${formatCount(features.sourceFiles, 'file')}, ${formatCount(features.sourceLines, 'line')}`,
      title,
    ]),
  )

/** Minimum time between two updates of the line. */
const UPDATE_INTERVAL_MS = 100

/** Creates a line that is updated in place. Without a terminal, it is printed every few seconds. */
function createProgressLine(shell: Shell) {
  const { errors } = shell
  let shownAt = 0
  let line: string | undefined
  const heartbeat = startHeartbeat(shell, () => line)
  return {
    show({ commits, pullRequests }: { commits: number; pullRequests: number }): void {
      line = `${formatCount(pullRequests, 'pull request')} in ${formatCount(commits, 'commit')} so far`
      const now = performance.now()
      if (!errors.isTTY || now - shownAt < UPDATE_INTERVAL_MS) return
      shownAt = now
      errors.write(`\r${line}\u001b[K`)
    },
    end(): void {
      heartbeat.stop()
      if (shownAt > 0) errors.write('\r\u001b[K')
    },
  }
}
