import { setTimeout as wait } from 'node:timers/promises'
import type { Exit, Sandbox } from '../sandboxes/sandbox.ts'
import type { Bench } from './bench.ts'
import { isHealthy, NeverReady, type Patience } from './health.ts'
import { inReason, SMALL_OUTPUT_BYTES } from './limits.ts'

export type ExecWish = {
  command: string[]
  seconds: number
  user?: string | number | null
  env?: Record<string, string>
  input?: string | Buffer
  outputBytes?: number
}

/** Who and where a command is when nothing else is said. */
export type Habits = { user: string | number | null; workdir: string | null; env: Record<string, string> }

/** A sandbox in which commands are run while it lives. */
export type Living = {
  sandbox: Sandbox
  exec(name: string, wish: ExecWish): Promise<Exit>
  /** Until a command that says so succeeds. Throws NeverReady. */
  healthy(name: string, command: string[], patience: Patience): Promise<void>
  /** Kills it. The limit of a command that failed may be known only now. */
  end(exit: Exit): Promise<Exit>
}

/** That a sandbox has ended may be known a little later than that nothing can be run in it. */
const LATE_MS = 2000

export function livingOf(bench: Bench, sandbox: Sandbox, habits: Habits): Living {
  const { signal } = bench.request
  let over: Exit | undefined
  sandbox.exited.then(
    (exit) => {
      over = exit
    },
    () => {},
  )

  const exec = async (name: string, wish: ExecWish): Promise<Exit> => {
    const { command, seconds, user = habits.user, env = {}, input = '', outputBytes = SMALL_OUTPUT_BYTES } = wish
    try {
      signal.throwIfAborted()
      return await sandbox.exec({
        command,
        user,
        workdir: habits.workdir,
        env: { ...habits.env, ...env },
        input,
        outputFile: bench.outputFile(name),
        limits: { outputBytes, seconds: inReason(seconds) },
      })
    } catch (error) {
      signal.throwIfAborted()
      await Promise.race([sandbox.exited.catch(() => {}), wait(LATE_MS, undefined, { ref: false })])
      if (over === undefined) throw error
      return { ...over, code: null } // it died with the sandbox
    } finally {
      signal.throwIfAborted()
    }
  }

  return {
    sandbox,
    exec,
    async healthy(name, command, patience) {
      const ask = async (): Promise<boolean> => {
        const { code } = await exec(`health-${name}`, { command, seconds: patience.timeoutSec })
        if (over) throw new NeverReady(`${name} ended (${over.limit ?? `code ${over.code}`}) before it was healthy.`)
        return code === 0
      }
      if (await isHealthy(ask, patience, signal)) return
      throw new NeverReady(`${name} did not become healthy: its healthcheck failed ${patience.retries} times in a row.`)
    },
    async end(exit) {
      await sandbox.kill()
      const { limit } = await sandbox.exited
      signal.throwIfAborted()
      const known = exit.limit !== null || exit.code === 0 || limit === 'output'
      return known ? exit : { ...exit, limit }
    },
  }
}
