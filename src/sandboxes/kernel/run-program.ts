import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { SandboxUnavailable } from '../sandbox.ts'
import { STANDARD_PATH } from './shell.ts'

const LAST_LINES = 30
/** Timeout of programs of this machine. Builds have their own deadlines. */
const PROGRAM_TIMEOUT_MS = 15 * 60_000

/** Runs a program of this machine and returns its output. Throws SandboxUnavailable if it fails. */
export async function runProgram(program: string, args: string[]): Promise<string> {
  const { code, output, errors } = await tryProgram(program, args)
  if (code === 0) return output
  throw new SandboxUnavailable(`${program} failed: ${errors.trim() || output.trim() || `code ${code}`}`)
}

/** Runs a program and returns its exit code and output. The code is 127 if the program is missing. */
export async function tryProgram(
  program: string,
  args: string[],
): Promise<{ code: number | null; output: string; errors: string }> {
  const child = spawn(program, args, { env: { PATH: STANDARD_PATH }, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = once(child, 'close').then(
    ([code]): number | null => code,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return 127
      throw error
    },
  )
  const timer = setTimeout(() => void child.kill('SIGKILL'), PROGRAM_TIMEOUT_MS)
  const [output, errors, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]).finally(() =>
    clearTimeout(timer),
  )
  return { code, output, errors }
}

/** Returns the path of a program of this machine, or undefined if it is missing. */
export const findProgram = async (name: string): Promise<string | undefined> =>
  (await tryProgram('sh', ['-c', `command -v ${name}`])).output.trim() || undefined

/** A line of ldd: `name => /path (address)`, or only `/path (address)` for the loader. */
const LIBRARY_LINE = /(?:=> |^\s*)(\/\S+) \(/

/** Lists the loader and the shared libraries of programs, each once. */
export async function listLibraries(programs: string[]): Promise<string[]> {
  const { output } = await tryProgram('ldd', programs)
  return [...new Set(output.split('\n').flatMap((line) => LIBRARY_LINE.exec(line)?.[1] ?? []))]
}

/** Like `runProgram`, but reports each line of the error output. The last lines are in the thrown error. */
export async function runLogged(
  program: string,
  args: string[],
  { signal, onLog, env }: { signal: AbortSignal; onLog: (line: string) => void; env?: Record<string, string> },
): Promise<string> {
  signal.throwIfAborted()
  const child = spawn(program, args, {
    env: { PATH: STANDARD_PATH, HOME: '/root', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
    killSignal: 'SIGKILL',
  })
  const last: string[] = []
  eachLine(child.stderr, (line) => {
    last.push(line)
    if (last.length > LAST_LINES) last.shift()
    onLog(line)
  })
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')])
  if (code === 0) return output
  throw new SandboxUnavailable(`${program} failed (${code}):\n${last.join('\n')}`)
}

const LINE_LENGTH_MAX = 10_000

/** Calls `onLine` for each line. Long lines are shortened, because an untrusted program may print a line without end. */
function eachLine(stream: Readable, onLine: (line: string) => void): void {
  let partial = ''
  stream.setEncoding('utf8').on('data', (chunk: string) => {
    const [first = '', ...others] = chunk.split(/\r?\n|\r/)
    partial = (partial + first).slice(0, LINE_LENGTH_MAX)
    for (const next of others) {
      onLine(partial)
      partial = next.slice(0, LINE_LENGTH_MAX)
    }
  })
  stream.on('end', () => {
    if (partial !== '') onLine(partial)
  })
}

/**
 * Removes a folder with untrusted contents. Node's `rm` is faster, but fails where folders are nested deeper than a
 * path can express; the program `rm` does not. If it fails too, unreadable folders are made readable.
 */
export async function removeTree(path: string): Promise<void> {
  const isRemoved = await rm(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 }).then(
    () => true,
    () => false,
  )
  if (isRemoved) return
  const args = ['-rf', '--', path]
  if ((await tryProgram('rm', args)).code === 0) return
  await tryProgram('chmod', ['-R', 'u+rwx', '--', path])
  await runProgram('rm', args)
}
