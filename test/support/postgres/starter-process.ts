import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

type StarterFact = { started?: string; failed?: string; stopped?: true; lost?: true; id?: number }

/** A process that runs `starter.ts`. Killed at the end of the test. */
export type StarterProcess = AsyncDisposable & {
  process: ChildProcess
  tell(word: 'stop' | 'write' | 'cycle'): void
  /** Facts that the process prints, until it exits. */
  facts: AsyncIterableIterator<StarterFact>
  hear(): Promise<StarterFact>
  kill(): Promise<void>
}

export type StarterOptions = {
  /** Command prefix before Node. */
  prefix?: string[]
  /** The root of the project, and the Node that runs it. */
  root?: string
  node?: string
  uid?: number
  gid?: number
  env?: Record<string, string | undefined>
}

/** Path of the program in the project. */
const STARTER = 'test/support/postgres/starter.ts'

export function spawnStarter(folder: string, options: StarterOptions = {}): StarterProcess {
  const { prefix = [], root = join(import.meta.dirname, '../../..'), node = process.execPath, uid, gid, env } = options
  const [file = node, ...args] = [...prefix, node, join(root, STARTER), folder]
  const child = spawn(file, args, { cwd: '/', stdio: ['pipe', 'pipe', 'inherit'], uid, gid, env })
  const ended = once(child, 'exit')
  const facts = parse(createInterface(child.stdout)[Symbol.asyncIterator]())
  const kill = async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await ended
  }
  return {
    process: child,
    tell: (word) => child.stdin.write(`${word}\n`),
    facts,
    hear: async () => (await facts.next()).value ?? {},
    kill,
    [Symbol.asyncDispose]: kill,
  }
}

async function* parse(lines: AsyncIterator<string>): AsyncGenerator<StarterFact> {
  for (;;) {
    const line = await lines.next()
    if (line.done) return
    yield JSON.parse(line.value)
  }
}
