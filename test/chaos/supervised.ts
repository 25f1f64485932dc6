import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { ConfigEnvironment } from '../../src/config.ts'
import { descendantsOf } from './processes.ts'

const BIN = new URL('../../bin/assay', import.meta.url).pathname

/** The real program, restarted whenever it exits, as a process supervisor does. */
export type Supervised = {
  /** Returns the id of the current process. */
  pid(): number
  /** Resolves when the current process is ready. */
  ready(): Promise<void>
  /** Sends a signal at any time, even during start-up, -9 by default. The next process starts when this one has ended. */
  kill(signal?: 'SIGKILL' | 'SIGTERM'): Promise<void>
  /** Stops the process once it is ready and returns its exit code. */
  stop(): Promise<number | null>
  /** Number of exits without a kill after it was ready. Must stay 0, even if dependencies are lost. */
  collapses: string[]
  /** Number of exits before it was ready, which lost dependencies can cause. */
  failedStarts: string[]
  /** Every process in its tree at the time of a kill. */
  killed: Set<string>
}

export function supervise(role: 'serve' | 'api' | 'work' | 'gateway', environment: ConfigEnvironment): Supervised {
  const collapses: string[] = []
  const failedStarts: string[] = []
  const killed = new Set<string>()
  let isOver = false
  let isReplaced = false
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
      if (isOver || isReplaced || signal === 'SIGKILL') return
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
    pid: () => current.pid ?? 0,
    ready: () => ready.promise,
    async kill(signal = 'SIGKILL') {
      for (const mark of await descendantsOf(current.pid ?? 0)) killed.add(mark)
      isReplaced = true
      await end(signal)
      isReplaced = false
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
