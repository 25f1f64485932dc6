import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { openPinnedProxy } from '../outbound/pinned-proxy.ts'
import { environmentOf, type GitPlace, optionsOf } from './settings.ts'

/** A tree that unfolds to billions of names ends git, not us. */
export const GIT_MEMORY_KIB = 1536 * 1024
const FILE_BYTES_MAX = 4 * 1024 ** 3
const BLOCK_BYTES = 512
const LIMITED = 'ulimit -f "$1"; ulimit -v "$2" 2>/dev/null; shift 2; exec git "$@"'
const TIMEOUT_MS = 600_000
const ERRORS_MAX = 64 * 1024
const OUTPUT_MAX = 16 * 1024 * 1024

export type GitOptions = {
  signal: AbortSignal
  timeoutMs?: number
  /** What git reads: lines, or whatever the command takes. */
  input?: Iterable<string> | AsyncIterable<string>
}

/** git ended, and not well. `stderr` is what a stranger may have written: show it with care. */
export class GitFailed extends Error {
  override name = 'GitFailed'
  readonly stderr: string
  readonly timedOut: boolean

  constructor(stderr: string, timedOut: boolean) {
    super(timedOut ? 'git took longer than allowed.' : `git failed: ${lastLine(stderr) || 'it was stopped'}.`)
    this.stderr = stderr
    this.timedOut = timedOut
  }
}

/** One command, and what it printed. Throws GitFailed. */
export async function runGit(place: GitPlace, args: readonly string[], options: GitOptions): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of streamGit(place, args, options)) {
    bytes += chunk.length
    if (bytes > OUTPUT_MAX) throw new GitFailed('It prints far too much', false)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** What a command prints, piece by piece. Who stops reading stops git. Throws GitFailed at the end. */
export async function* streamGit(
  place: GitPlace,
  args: readonly string[],
  { signal, timeoutMs = TIMEOUT_MS, input = [] }: GitOptions,
): AsyncGenerator<Buffer, void, undefined> {
  signal.throwIfAborted()
  const deadline = AbortSignal.timeout(timeoutMs)
  await using proxy = place.pin ? await openPinnedProxy(place.pin) : undefined
  const child = start(place, args, proxy?.proxyUrl, AbortSignal.any([signal, deadline]))
  const ended = endOf(child)
  // It may end before it has read all, and then says why itself.
  const feeding = once(Readable.from(input).pipe(child.stdin), 'close').catch(() => {})
  child.stdin.on('error', () => {})
  try {
    for await (const chunk of child.stdout) yield chunk
    const { code, stderr } = await ended
    signal.throwIfAborted()
    if (code !== 0) throw new GitFailed(stderr, deadline.aborted)
    await feeding
  } finally {
    child.kill('SIGKILL')
    await ended
  }
}

function start(
  place: GitPlace,
  args: readonly string[],
  proxyUrl: string | undefined,
  signal: AbortSignal,
): ChildProcessWithoutNullStreams {
  const { memoryKib = GIT_MEMORY_KIB, fileBytesMax = FILE_BYTES_MAX, where, cwd } = place
  const limits = [String(Math.ceil(fileBytesMax / BLOCK_BYTES)), String(memoryKib)]
  return spawn('sh', ['-c', LIMITED, 'sh', ...limits, ...optionsOf(place, proxyUrl), ...where, ...args], {
    ...{ cwd, env: environmentOf(place), signal, killSignal: 'SIGKILL' },
  })
}

function endOf(child: ChildProcessWithoutNullStreams): Promise<{ code: number | null; stderr: string }> {
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => {
    // What went wrong is said last.
    stderr = (stderr + chunk.toString()).slice(-ERRORS_MAX)
  })
  return new Promise((resolve) => {
    child.once('error', ({ message }) => resolve({ code: null, stderr: stderr || message }))
    child.once('close', (code) => resolve({ code, stderr }))
  })
}

const LINE_MAX = 300

/** Names come from strangers: none of them may run on, or move the cursor of a terminal. */
function lastLine(stderr: string): string {
  const line =
    stderr
      .trim()
      .split(/[\r\n]/)
      .at(-1) ?? ''
  return line.slice(0, LINE_MAX).replaceAll(/\p{C}/gu, '?').replace(/\.$/, '')
}
