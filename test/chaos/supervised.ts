import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { ConfigEnvironment } from '../../src/config.ts'
import { descendantsOf } from './processes.ts'

const BIN = new URL('../../bin/assay', import.meta.url).pathname

/** The real program, started again whenever it ends, as an operator's machine would. */
export type Supervised = {
  /** Once the one that runs now has said that it is ready. */
  ready(): Promise<void>
  /** Sends kill -9, at whatever it is doing, its own start included. The next one is started at once. */
  kill(): Promise<void>
  /** Asks it to end once it is ready, and waits. Answers its exit code. */
  stop(): Promise<number | null>
  /** How often it ended by itself after it had been ready: no loss of anything outside may do that. */
  collapses: string[]
  /** Ends before it was ready, which others may bring about. */
  failedStarts: string[]
  /** Every process of it and below it that was there when it was killed. */
  killed: Set<string>
}

export function supervise(role: 'serve' | 'api' | 'work' | 'gateway', environment: ConfigEnvironment): Supervised {
  const collapses: string[] = []
  const failedStarts: string[] = []
  const killed = new Set<string>()
  let isOver = false
  let ready = Promise.withResolvers<void>()
  let current = start()

  function start(): ChildProcess {
    const child = spawn(process.execPath, [BIN, role], {
      env: { ...process.env, ASSAY_LOG: 'warn', ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let isReady = false
    let said = ''
    child.stdout.on('data', (chunk: Buffer) => {
      isReady ||= chunk.toString().includes('assay ready')
      if (isReady && child === current) ready.resolve()
    })
    child.stderr.on('data', (chunk: Buffer) => {
      said = (said + chunk.toString()).slice(-4000)
    })
    child.once('exit', (code, signal) => {
      if (isOver || signal === 'SIGKILL') return
      ;(isReady ? collapses : failedStarts).push(`${role} ended with ${code ?? signal}: ${said}`)
      current = start()
    })
    return child
  }

  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    const child = current
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode
    const exited = once(child, 'exit')
    child.kill(signal)
    const [code] = await exited
    return code
  }

  return {
    collapses,
    failedStarts,
    killed,
    ready: () => ready.promise,
    async kill() {
      for (const mark of await descendantsOf(current.pid ?? 0)) killed.add(mark)
      await end('SIGKILL')
      ready = Promise.withResolvers()
      current = start()
    },
    async stop() {
      if (!isOver) await ready.promise
      isOver = true
      return end('SIGTERM')
    },
  }
}
