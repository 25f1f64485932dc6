import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { run } from '../../cli/program.ts'
import type { Shell } from '../../cli/shell.ts'

export const BIN = new URL('../../bin/assay', import.meta.url).pathname

export type CommandVariables = Record<string, string>
export type CommandResult = { code: number | null; out: string; err: string }

type CommandOptions = { env?: CommandVariables; input?: string; cwd?: string; uid?: number; gid?: number }

const { PATH = '', HOME = tmpdir() } = process.env

/** The minimal environment that the program needs to start. */
export const bareEnvironment: CommandVariables = { PATH, HOME }

/** Commands that call a service or read files, and so behave in this process as in their own. */
const CLIENT_COMMANDS = new Set([
  ...['audit', 'batches', 'benchmarks', 'check', 'compare', 'comparisons', 'completion', 'config', 'configurations'],
  ...[
    'credentials',
    'import',
    'init',
    'keys',
    'models',
    'orgs',
    'releases',
    'repos',
    'scan',
    'trials',
    'webhooks',
    '--json',
  ],
])

/**
 * Runs a command and waits for its end: in this process if that makes no difference, otherwise as the real program. Lines
 * that only say how long a command takes are left out, because they depend on how busy the machine is.
 */
export async function assay(args: string[], options: CommandOptions = {}): Promise<CommandResult> {
  const { env = {}, input = '', ...others } = options
  const isClient = args.includes('--help') || CLIENT_COMMANDS.has(args[0] ?? '')
  const isPlain = Object.keys(others).length === 0 && !('FORCE_COLOR' in env)
  const result = await (isClient && isPlain ? runInProcess(args, env, input) : startProgram(args, options))
  return { ...result, err: result.err.replaceAll(/^assay [^\n]*: \d+ s so far\n/gm, '') }
}

/** Starting Node for every command would take a third of the time of the tests. */
async function runInProcess(args: string[], env: CommandVariables, input: string): Promise<CommandResult> {
  const { exited, out, err } = startInProcess(args, env, input)
  return { code: await exited, out: out(), err: err() }
}

/** Starts a command in this process. `out` and `err` return what it has printed so far. */
export function startInProcess(args: string[], env: CommandVariables = {}, input = '') {
  const [output, errors] = [recordingStream(), recordingStream()]
  const streams = { input: () => Readable.from([input]), output: output.stream, errors: errors.stream }
  const shell = { env: { ...bareEnvironment, ...env }, ...streams } as unknown as Shell
  return { exited: run(args, shell), out: output.text, err: errors.text }
}

function recordingStream() {
  const chunks: Buffer[] = []
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk)
      done()
    },
  })
  return { stream, text: () => Buffer.concat(chunks).toString() }
}

/** Starts the real program and waits for it to exit. */
function startProgram(args: string[], { env = {}, input = '', ...options }: CommandOptions): Promise<CommandResult> {
  const child = spawn(process.execPath, [BIN, ...args], { ...options, env: { ...bareEnvironment, ...env } })
  return waitForEnd(child, input)
}

/** Set if `script` of util-linux is available, which runs a program on a terminal. */
export const hasTerminal =
  process.platform === 'linux' && spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0

/** Runs the program on a terminal. `type` receives the output so far and returns the next input, or undefined. */
export function onTerminal(args: string[], env: CommandVariables, type: (shown: string) => string | undefined) {
  const command = [process.execPath, BIN, ...args].map((word) => `'${word}'`).join(' ')
  const sized = `stty cols 100 rows 30 && exec ${command}`
  const child = spawn('script', ['-qefc', sized, '/dev/null'], { env: { ...bareEnvironment, TERM: 'xterm', ...env } })
  // The program may end before the last input arrives.
  child.stdin.on('error', () => {})
  let shown = ''
  child.stdout.on('data', (chunk: Buffer) => {
    shown += chunk.toString()
    const typed = type(shown)
    if (typed !== undefined) child.stdin.write(typed)
  })
  return once(child, 'exit').then(([code]): CommandResult => ({ code, out: shown, err: '' }))
}

async function waitForEnd(child: ChildProcess, input: string): Promise<CommandResult> {
  if (!child.stdin || !child.stdout || !child.stderr) throw new Error('The program was started without its streams.')
  child.stdin.on('error', () => {}) // The program may exit before it reads its input.
  child.stdin.end(input)
  const exited = once(child, 'exit')
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), exited])
  return { code, out, err }
}

/** Creates a temporary folder for a test file. */
export function scratchFolder(): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'assay-cli-'))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/** Starts an HTTP server on a local port. */
export async function localServer(answer: RequestListener): Promise<AsyncDisposable & { port: number; url: string }> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The server listens on no port.')
  const { port } = address
  return { port, url: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: async () => void server.close() }
}

/** Starts the program and records its output. */
export function launch(args: string[], env: CommandVariables = {}) {
  const child = spawn(process.execPath, [BIN, ...args], { env: { ...bareEnvironment, ...env } })
  const out = record(child.stdout)
  const err = record(child.stderr)
  const exited = once(child, 'close').then(([code]): number | null => code)
  return { child, out, err, exited, ready: out.shows(/^assay ready.*\n/m) }
}

type RecordedStream = { text: () => string; shows: (pattern: RegExp) => Promise<string> }

function record(stream: NodeJS.ReadableStream): RecordedStream {
  let received = ''
  stream.on('data', (chunk: Buffer) => {
    received += chunk.toString()
  })
  const shows = (pattern: RegExp) =>
    new Promise<string>((resolve, reject) => {
      const look = () => {
        if (pattern.test(received)) resolve(received)
      }
      look()
      stream.on('data', look)
      stream.on('close', () => reject(new Error(`The program ended without ${pattern}: ${received}`)))
    })
  return { text: () => received, shows }
}

/** Returns the doctor's line for a check, with the fix below it. */
export function findCheckLines({ out }: CommandResult, name: string): string {
  const lines = out.split('\n')
  const place = lines.findIndex((line) => line.slice(2).startsWith(`${name} `) && !line.startsWith(' '))
  const fix = lines[place + 1]?.startsWith('    fix: ') ? `\n${lines[place + 1]}` : ''
  return `${lines[place]?.replaceAll(/ {2,}/g, '  ')}${fix}`
}
