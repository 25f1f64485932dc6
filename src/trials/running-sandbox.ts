import { buffer } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import type { Healthcheck } from '../harbor/task.ts'
import type { Exit, Sandbox } from '../sandboxes/sandbox.ts'
import { capSeconds, SMALL_OUTPUT_BYTES } from './limits.ts'
import type { StepContext } from './step-context.ts'
import { packOriginals } from './withhold-files.ts'

/** A command in a sandbox. Fields that are not set take their values from CommandDefaults. */
export type SandboxCommand = {
  command: string[]
  seconds: number
  user?: string | number | null | undefined
  env?: Record<string, string> | undefined
  input?: string | Buffer | undefined
  outputBytes?: number | undefined
}

type CommandDefaults = { user: string | number | null; workdir: string | null; env: Record<string, string> }

/** A sandbox in which commands can be run while its first process lives. */
export type RunningSandbox = {
  sandbox: Sandbox
  exec(name: string, command: SandboxCommand): Promise<Exit>
  /** Runs a command until it succeeds. Throws EnvironmentNotReady after too many failures, or if the sandbox ends. */
  awaitHealthy(name: string, command: string[], policy: HealthcheckPolicy): Promise<void>
  /** Kills the sandbox. Returns the exit of a command, with the limit of the sandbox that ended it, if there is one. */
  end(exit: Exit): Promise<Exit>
}

export type HealthcheckPolicy = Omit<Healthcheck, 'command'>

/** Thrown when the environment of the task did not become ready for an agent or a verifier. Never counts as a verdict. */
export class EnvironmentNotReady extends Error {
  override name = 'EnvironmentNotReady'
}

export function toRunningSandbox(context: StepContext, sandbox: Sandbox, defaults: CommandDefaults): RunningSandbox {
  const { signal } = context.request
  let sandboxExit: Exit | undefined
  sandbox.exited.then(
    (exit) => {
      sandboxExit = exit
    },
    () => {},
  )

  const exec = async (name: string, options: SandboxCommand): Promise<Exit> => {
    const { command, seconds, user, env, input = '', outputBytes = SMALL_OUTPUT_BYTES } = options
    try {
      signal.throwIfAborted()
      return await sandbox.exec({
        command,
        user: user === undefined ? defaults.user : user,
        workdir: defaults.workdir,
        env: { ...defaults.env, ...env },
        input,
        outputFile: context.outputFile(name),
        limits: { outputBytes, seconds: capSeconds(seconds) },
      })
    } catch (error) {
      signal.throwIfAborted()
      await Promise.race([sandbox.exited.catch(() => {}), wait(EXIT_DELAY_MS, undefined, { ref: false })])
      if (sandboxExit === undefined) throw error
      return { ...sandboxExit, code: null } // The command ended with its sandbox.
    } finally {
      signal.throwIfAborted()
    }
  }

  return {
    sandbox,
    exec,
    async awaitHealthy(name, command, policy) {
      const probe = async (): Promise<boolean> => {
        const { code } = await exec(`health-${name}`, { command, seconds: policy.timeoutSec })
        if (sandboxExit)
          throw new EnvironmentNotReady(
            `${name} ended (${sandboxExit.limit ?? `code ${sandboxExit.code}`}) before it became healthy.`,
          )
        return code === 0
      }
      if (await pollHealth(probe, policy, signal)) return
      throw new EnvironmentNotReady(
        `${name} did not become healthy: its healthcheck failed ${policy.retries} times in a row.`,
      )
    },
    async end(exit) {
      await sandbox.kill()
      const { limit } = await sandbox.exited
      signal.throwIfAborted()
      const isExplained = exit.limit !== null || exit.code === 0 || limit === 'output'
      return isExplained ? exit : { ...exit, limit }
    },
  }
}

/** Time to wait for the exit of a sandbox, which may be reported later than the failure to run a command in it. */
const EXIT_DELAY_MS = 2000

/**
 * Polls until a probe succeeds. Failures during the start period do not count; after it, `retries` failures in a row end
 * the polling, as in Harbor.
 */
export async function pollHealth(
  probe: () => Promise<boolean>,
  { intervalSec, startPeriodSec, startIntervalSec, retries }: HealthcheckPolicy,
  signal: AbortSignal,
): Promise<boolean> {
  const startedAt = performance.now()
  let failures = 0
  for (;;) {
    const isStarting = performance.now() - startedAt < startPeriodSec * 1000
    if (await probe()) return true
    signal.throwIfAborted()
    if (!isStarting) failures += 1
    if (!isStarting && failures >= retries) return false
    await wait(capSeconds(isStarting ? startIntervalSec : intervalSec) * 1000, undefined, { signal })
  }
}

/** Maximum duration of a healthcheck that fails. */
export const computeHealthcheckSecondsMax = (policy: HealthcheckPolicy): number => {
  const { intervalSec, timeoutSec, startPeriodSec, startIntervalSec, retries } = policy
  return startPeriodSec + startIntervalSec + timeoutSec + (retries + 1) * (intervalSec + timeoutSec)
}

const WITHDRAW_SECONDS = 60

/**
 * Removes the files of the configuration from a running sandbox and restores the files of the task that they replaced.
 * Runs programs of the sandbox, which the agent may have replaced. Returns false if a file could not be removed or restored.
 */
export async function withdrawFiles(context: StepContext, running: RunningSandbox): Promise<boolean> {
  const placed = context.placedFiles()
  if (!placed) return true
  const run = (command: string[], input?: Buffer): Promise<Exit> =>
    running.exec('withdraw', { command, user: 0, seconds: WITHDRAW_SECONDS, input })
  const removed = await run(['rm', '-rf', '--', ...placed.paths])
  // Folders that are not empty hold work of the agent and stay.
  if (placed.newFolders.length > 0) await run(['rmdir', '--', ...placed.newFolders.toReversed()])
  if (placed.originals.length === 0) return removed.code === 0
  const restored = await run(['tar', '-xf', '-', '-C', '/'], await buffer(packOriginals(placed.originals)))
  return removed.code === 0 && restored.code === 0
}
