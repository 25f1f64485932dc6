import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { findUrlRefusal } from '../outbound/outbound.ts'
import { openPinnedProxy, type PinnedServer } from '../outbound/pinned-connections.ts'
import { type Resolve, resolvePublicHost } from '../outbound/public-host.ts'
import { hostOf } from '../outbound/url-rules.ts'
import { buildEnvironment, buildOptions, type GitLocation, KNOWN_HOSTS } from './settings.ts'

/** Memory limit of git: a tree that expands to billions of names ends git and not this process. */
export const GIT_MEMORY_KIB = 1536 * 1024
const FILE_BYTES_MAX = 4 * 1024 ** 3
/** Unit of `ulimit -f`. */
const BLOCK_BYTES = 512
/** Script that runs git with limits on the size of files and on memory. */
const LIMITED_GIT_SCRIPT = 'ulimit -f "$1"; ulimit -v "$2" 2>/dev/null; shift 2; exec git "$@"'
/** Script that passes the ssh key to the agent that was started with this shell, and then runs git. */
const SSH_KEY_SCRIPT = `printf '%s\\n' "$ASSAY_SSH_KEY" | ssh-add -q - || exit; unset ASSAY_SSH_KEY; ${LIMITED_GIT_SCRIPT}`
const TIMEOUT_MS = 600_000
const STDERR_LENGTH_MAX = 64 * 1024
const OUTPUT_BYTES_MAX = 16 * 1024 * 1024

type GitOptions = {
  signal: AbortSignal
  timeoutMs?: number
  /** Standard input of the command. */
  input?: Iterable<string> | AsyncIterable<string>
}

/** Thrown when git failed. `stderr` may contain untrusted text. */
export class GitFailed extends Error {
  override name = 'GitFailed'
  readonly stderr: string
  readonly timedOut: boolean

  constructor(stderr: string, { timedOut = false } = {}) {
    super(timedOut ? 'git took longer than allowed.' : `git failed: ${toLastLine(stderr) || 'it was killed'}.`)
    this.stderr = stderr
    this.timedOut = timedOut
  }
}

/** Output of git when it exceeds its limits of memory or file size. */
export const LIMIT_EXCEEDED = /out of memory|cannot allocate|mmap failed|file too large|signal 25/i

/** Runs a command and returns its output. Throws GitFailed. */
export async function runGit(location: GitLocation, args: readonly string[], options: GitOptions): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of streamGit(location, args, options)) {
    bytes += chunk.length
    if (bytes > OUTPUT_BYTES_MAX) throw new GitFailed('too much output')
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
  if (location.ssh) await writeFile(join(location.cwd, KNOWN_HOSTS), `${location.ssh.key.knownHosts}\n`)
  await using proxy = location.pin ? await openPinnedProxy(location.pin) : undefined
  const child = startGit(location, args, proxy?.proxyUrl, AbortSignal.any([signal, deadline]))
  const ended = waitForEnd(child)
  // git may exit before it has read all input, and then reports the reason itself.
  const inputSent = once(Readable.from(input).pipe(child.stdin), 'close').catch(() => {})
  child.stdin.on('error', () => {})
  try {
    for await (const chunk of child.stdout) yield chunk
    const { code, stderr } = await ended
    signal.throwIfAborted()
    if (code !== 0) throw new GitFailed(stderr, { timedOut: deadline.aborted })
    await inputSent
  } finally {
    child.kill('SIGKILL')
    await ended
  }
}

function startGit(
  location: GitLocation,
  args: readonly string[],
  proxyUrl: string | undefined,
  signal: AbortSignal,
): ChildProcessWithoutNullStreams {
  const { memoryKib = GIT_MEMORY_KIB, fileBytesMax = FILE_BYTES_MAX, repositoryArgs, cwd, ssh } = location
  const limits = [String(Math.ceil(fileBytesMax / BLOCK_BYTES)), String(memoryKib)]
  const shell = ssh ? ['ssh-agent', 'sh', '-c', SSH_KEY_SCRIPT] : ['sh', '-c', LIMITED_GIT_SCRIPT]
  const [program = 'sh', ...script] = shell
  return spawn(program, [...script, 'sh', ...limits, ...buildOptions(location, proxyUrl), ...repositoryArgs, ...args], {
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
    stderr = (stderr + chunk.toString()).slice(-STDERR_LENGTH_MAX)
  })
  return new Promise((resolve) => {
    child.once('error', ({ message }) => resolve({ code: null, stderr: stderr || message }))
    child.once('close', (code) => resolve({ code, stderr }))
  })
}

const LINE_LENGTH_MAX = 300

/** Returns the last line, shortened and without control characters: it may contain untrusted names. */
function toLastLine(stderr: string): string {
  const line =
    stderr
      .trim()
      .split(/[\r\n]/)
      .at(-1) ?? ''
  return line.slice(0, LINE_LENGTH_MAX).replaceAll(/\p{C}/gu, '?').replace(/\.$/, '')
}

const SHA256_LENGTH = 64

/** Creates an empty bare repository with the object format of an object id: SHA-256, or SHA-1 if there is no id. */
export async function createEmptyRepository(gitDir: string, objectId: string | undefined): Promise<void> {
  await mkdir(join(gitDir, 'objects', 'info'), { recursive: true, mode: 0o700 })
  await mkdir(join(gitDir, 'refs'))
  await writeFile(join(gitDir, 'HEAD'), 'ref: refs/heads/none\n')
  const format = objectId?.length === SHA256_LENGTH ? '[extensions]\n\tobjectFormat = sha256\n' : ''
  await writeFile(join(gitDir, 'config'), `[core]\n\trepositoryFormatVersion = 1\n\tbare = true\n${format}`)
}

/**
 * Splits a stream at a separator and yields the pieces as latin1, one char per byte. Truncates pieces at `bytesMax`, so
 * that untrusted input cannot exhaust memory.
 */
export async function* splitStream(
  stream: AsyncIterable<Buffer>,
  separator: number,
  bytesMax: number,
): AsyncGenerator<string, void, undefined> {
  let partial = ''
  for await (const chunk of stream) {
    let from = 0
    for (let end = chunk.indexOf(separator); end !== -1; end = chunk.indexOf(separator, from)) {
      yield append(partial, chunk, from, end, bytesMax)
      partial = ''
      from = end + 1
    }
    partial = append(partial, chunk, from, chunk.length, bytesMax)
  }
  if (partial !== '') yield partial
}

function append(partial: string, chunk: Buffer, from: number, to: number, bytesMax: number): string {
  const remaining = bytesMax - partial.length
  return remaining <= 0 ? partial : partial + chunk.toString('latin1', from, Math.min(to, from + remaining))
}

export const LINE_END = 10
export const NUL = 0

/** Decodes UTF-8 that was read as latin1. Invalid bytes become replacement characters. */
export const decodeUtf8 = (bytes: string): string =>
  // Fast path: most text is ASCII.
  /^[\x20-\x7e\s]*$/.test(bytes) ? bytes : Buffer.from(bytes, 'latin1').toString('utf8')

/** End of the year 9999, in Unix seconds. Most date formats cannot represent later dates. */
const UNIX_SECONDS_END = 253_402_300_800

/** Parses the untrusted Unix timestamp of a commit. Invalid timestamps become 0, as in git. */
export function parseSeconds(text: string | undefined): number {
  const seconds = Number(text)
  return seconds > 0 && seconds < UNIX_SECONDS_END ? Math.floor(seconds) : 0
}

const BLOB_HEADER = /^[0-9a-f]+ blob (\d+)$/

/**
 * Yields files with their contents in the given order, one at a time. Throws GitFailed when an id is missing, is not a
 * file, or exceeds `bytesMax`: callers know the sizes.
 */
export async function* readBlobs<F extends { id: string }>(
  location: GitLocation,
  files: readonly F[],
  { signal, bytesMax }: { signal: AbortSignal; bytesMax: number },
): AsyncGenerator<F & { content: Buffer }, void, undefined> {
  if (files.length === 0) return
  const input = files.map(({ id }) => `${id}\n`).join('')
  const stream = streamGit(location, ['cat-file', '--batch'], { signal, input: [input] })
  try {
    const reader = createBufferedReader(stream)
    for (const file of files) {
      const line = await reader.line()
      const size = BLOB_HEADER.exec(line)?.[1]
      if (size === undefined || Number(size) > bytesMax) throw new GitFailed(`cannot read file: ${line}`)
      const content = await reader.take(Number(size))
      await reader.take(1) // The line break after the content.
      yield { ...file, content }
    }
  } finally {
    await stream.return()
  }
}

type BufferedReader = { line(): Promise<string>; take(bytes: number): Promise<Buffer> }

function createBufferedReader(stream: AsyncGenerator<Buffer, void, undefined>): BufferedReader {
  let buffered: Buffer = Buffer.alloc(0)
  const readChunk = async (): Promise<Buffer> => {
    const { value, done } = await stream.next()
    if (done || !value) throw new GitFailed('unexpected end of output')
    return value
  }
  const take = async (bytes: number): Promise<Buffer> => {
    const chunks = [buffered]
    let length = buffered.length
    while (length < bytes) {
      const chunk = await readChunk()
      chunks.push(chunk)
      length += chunk.length
    }
    const available = chunks.length === 1 ? buffered : Buffer.concat(chunks)
    buffered = available.subarray(bytes)
    return available.subarray(0, bytes)
  }
  return {
    take,
    async line() {
      while (!buffered.includes(LINE_END)) buffered = Buffer.concat([buffered, await readChunk()])
      const line = await take(buffered.indexOf(LINE_END) + 1)
      return line.toString('latin1', 0, line.length - 1)
    },
  }
}

/**
 * Result of checking an address. The reason `address` means that the URL itself is not allowed. Do not show `private` and
 * `unresolved` to a workspace: they disclose which internal names exist.
 */
type AddressAdmission =
  | { kind: 'admitted'; url: string; pin: PinnedServer }
  | { kind: 'refused'; host: string; reason: 'address' | 'private' | 'unresolved' }

/** Checks an https URL from a client. git must use the returned URL and connect only to the addresses in `pin`. */
export async function admitAddress(url: string, resolve: Resolve): Promise<AddressAdmission> {
  const parsed = new URL(url)
  const host = hostOf(parsed)
  const isRefused = findUrlRefusal(url, 'client') !== undefined || parsed.search !== '' || parsed.hash !== ''
  if (isRefused) return { kind: 'refused', host, reason: 'address' }
  const resolved = await resolvePublicHost(host, resolve)
  if (resolved.kind !== 'public')
    return { kind: 'refused', host, reason: resolved.kind === 'unknown' ? 'unresolved' : 'private' }
  const pin = { host, port: Number(parsed.port || 443), addresses: resolved.addresses }
  return { kind: 'admitted', url: parsed.href, pin }
}
