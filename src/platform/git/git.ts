import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { openPinnedProxy } from '../outbound/pinned-proxy.ts'
import { buildEnvironment, buildOptions, type GitLocation } from './settings.ts'

/** Memory limit of git: a tree that expands to billions of names ends git and not this process. */
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
  /** Standard input of the command. */
  input?: Iterable<string> | AsyncIterable<string>
}

/** git failed. `stderr` may contain untrusted text. */
export class GitFailed extends Error {
  override name = 'GitFailed'
  readonly stderr: string
  readonly timedOut: boolean

  constructor(stderr: string, timedOut: boolean) {
    super(timedOut ? 'git took longer than allowed.' : `git failed: ${lastLine(stderr) || 'it was killed'}.`)
    this.stderr = stderr
    this.timedOut = timedOut
  }
}

/** Runs a command and returns its output. Throws GitFailed. */
export async function runGit(location: GitLocation, args: readonly string[], options: GitOptions): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of streamGit(location, args, options)) {
    bytes += chunk.length
    if (bytes > OUTPUT_MAX) throw new GitFailed('too much output', false)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** Streams the output of a command. Breaking out of the iterator kills git. Throws GitFailed at the end. */
export async function* streamGit(
  location: GitLocation,
  args: readonly string[],
  { signal, timeoutMs = TIMEOUT_MS, input = [] }: GitOptions,
): AsyncGenerator<Buffer, void, undefined> {
  signal.throwIfAborted()
  const deadline = AbortSignal.timeout(timeoutMs)
  await using proxy = location.pin ? await openPinnedProxy(location.pin) : undefined
  const child = start(location, args, proxy?.proxyUrl, AbortSignal.any([signal, deadline]))
  const ended = waitForEnd(child)
  // git may exit before it has read all input, and then reports the reason itself.
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
  location: GitLocation,
  args: readonly string[],
  proxyUrl: string | undefined,
  signal: AbortSignal,
): ChildProcessWithoutNullStreams {
  const { memoryKib = GIT_MEMORY_KIB, fileBytesMax = FILE_BYTES_MAX, where, cwd } = location
  const limits = [String(Math.ceil(fileBytesMax / BLOCK_BYTES)), String(memoryKib)]
  return spawn('sh', ['-c', LIMITED, 'sh', ...limits, ...buildOptions(location, proxyUrl), ...where, ...args], {
    cwd,
    env: buildEnvironment(location),
    signal,
    killSignal: 'SIGKILL',
  })
}

function waitForEnd(child: ChildProcessWithoutNullStreams): Promise<{ code: number | null; stderr: string }> {
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => {
    // The error is in the last lines.
    stderr = (stderr + chunk.toString()).slice(-ERRORS_MAX)
  })
  return new Promise((resolve) => {
    child.once('error', ({ message }) => resolve({ code: null, stderr: stderr || message }))
    child.once('close', (code) => resolve({ code, stderr }))
  })
}

const LINE_MAX = 300

/** Returns the last line, shortened and without control characters: it may contain untrusted names. */
function lastLine(stderr: string): string {
  const line =
    stderr
      .trim()
      .split(/[\r\n]/)
      .at(-1) ?? ''
  return line.slice(0, LINE_MAX).replaceAll(/\p{C}/gu, '?').replace(/\.$/, '')
}

const SHA256_LENGTH = 64

/** Creates an empty bare repository with the object format of this id. */
export async function createEmptyRepository(gitDir: string, id: string | undefined): Promise<void> {
  await mkdir(join(gitDir, 'objects', 'info'), { recursive: true, mode: 0o700 })
  await mkdir(join(gitDir, 'refs'))
  await writeFile(join(gitDir, 'HEAD'), 'ref: refs/heads/none\n')
  const format = id?.length === SHA256_LENGTH ? '[extensions]\n\tobjectFormat = sha256\n' : ''
  await writeFile(join(gitDir, 'config'), `[core]\n\trepositoryFormatVersion = 1\n\tbare = true\n${format}`)
}
