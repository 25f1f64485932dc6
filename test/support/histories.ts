// Writes repositories with a known history by `git fast-import`, which is fast for thousands of commits.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { Readable } from 'node:stream'

export type HistoryCommit = {
  /** Bytes as latin1, because they may be invalid UTF-8. */
  message: string
  /** New texts by path; null deletes a file. */
  files: Record<string, string | null>
  author?: string | undefined
  /** Seconds since 1970. Defaults to a day after the previous commit. */
  at?: number
  /** Lands by a merge commit instead of a squashed commit. */
  isMerge?: boolean
  /** Message of the commit that is merged. */
  branchMessage?: string
  /** Paths that are symbolic links; their texts are the targets. */
  links?: readonly string[]
  /** Number of the pull request; `refs/pull/<n>/head` keeps pointing at its last commit. */
  pull?: number
  /** Commits of the pull request as they were before they were rebased onto the branch. */
  isRebased?: boolean
}

const DAY = 86_400
const START = 1_500_000_000

/** Writes a bare repository with the branch main. */
export async function writeHistory(folder: string, changes: Iterable<HistoryCommit>): Promise<void> {
  await mkdir(folder, { recursive: true })
  await git(folder, ['init', '--quiet', '--bare', '--initial-branch=main', '.'])
  const child = spawn('git', ['-c', 'core.ignoreCase=false', 'fast-import', '--quiet', '--force'], {
    cwd: folder,
    env: environment,
    stdio: ['pipe', 'inherit', 'inherit'] as const,
  })
  Readable.from(commands(changes)).pipe(child.stdin)
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`git fast-import ended with ${code}.`)
}

export const environment = {
  PATH: process.env.PATH ?? '',
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'Ada',
  GIT_AUTHOR_EMAIL: 'ada@example.org',
  GIT_COMMITTER_NAME: 'Ada',
  GIT_COMMITTER_EMAIL: 'ada@example.org',
}

export async function git(cwd: string, args: string[]): Promise<string> {
  const child = spawn('git', args, { cwd, env: environment, stdio: ['ignore', 'pipe', 'inherit'] })
  const out: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk))
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`git ${args.join(' ')} ended with ${code}.`)
  return Buffer.concat(out).toString().trim()
}

function* commands(changes: Iterable<HistoryCommit>): Generator<Buffer> {
  let last = 0
  let clock = START
  for (const change of changes) {
    clock += DAY
    yield* writeChange(last, change, change.at ?? clock)
    last += change.isMerge || change.isRebased ? 2 : 1
  }
  yield Buffer.from(`reset refs/heads/aside\nfrom ${'0'.repeat(40)}\n\n`)
}

function* writeChange(last: number, change: HistoryCommit, at: number): Generator<Buffer> {
  const from = last === 0 ? '' : `from :${last}\n`
  const hasBranchCommit = change.isMerge || change.isRebased
  if (hasBranchCommit) yield* branchCommit(last + 1, change, at, from)
  const parents = change.isMerge ? `${from}merge :${last + 1}\n` : from
  const times = { committedAt: at, authoredAt: at - WORK_SECONDS }
  yield commit(last + (hasBranchCommit ? 2 : 1), 'refs/heads/main', { ...change, ...times }, parents)
}

/** Time between authoring a commit and merging it. */
const WORK_SECONDS = 60

/** Yields the commit of a pull request before the merge. */
function* branchCommit(mark: number, change: HistoryCommit, at: number, from: string): Generator<Buffer> {
  const message = change.isMerge ? (change.branchMessage ?? 'work') : change.message
  yield commit(
    mark,
    'refs/heads/aside',
    { ...change, message, committedAt: at - WORK_SECONDS, authoredAt: at - WORK_SECONDS },
    from,
  )
  if (change.pull !== undefined) yield Buffer.from(`reset refs/pull/${change.pull}/head\nfrom :${mark}\n\n`)
}

type TimedCommit = HistoryCommit & { committedAt: number; authoredAt: number }

function commit(mark: number, ref: string, change: TimedCommit, parents: string): Buffer {
  const { message, files, author = 'Ada', committedAt, authoredAt, links = [] } = change
  const head = [
    `commit ${ref}\nmark :${mark}`,
    `author ${author} <${author.replaceAll(/\W/g, '').toLowerCase()}@example.org> ${authoredAt} +0000`,
    `committer Merger <merger@example.org> ${committedAt} +0000`,
    data(message),
  ].join('\n')
  const changed = Object.entries(files).map(([path, text]) =>
    text === null
      ? `D ${quoted(path)}\n`
      : `M ${links.includes(path) ? '120000' : '100644'} inline ${quoted(path)}\n${data(text)}`,
  )
  return Buffer.from(`${head}${parents}${changed.join('')}\n`, 'latin1')
}

const data = (text: string): string => `data ${Buffer.byteLength(text, 'latin1')}\n${text}\n`

const quoted = (path: string): string => `"${path.replaceAll(/[\\"]/g, '\\$&').replaceAll('\n', '\\n')}"`
