import { SandboxUnavailable, SandboxUnsupported } from '../sandboxes/sandbox.ts'
import { EnvironmentNotReady } from './running-sandbox.ts'
import type { StepContext } from './step-context.ts'

/** Returns true if a sandbox could not be started or did not become ready. */
export const isSandboxFailure = (error: unknown): error is Error =>
  error instanceof SandboxUnavailable || error instanceof SandboxUnsupported || error instanceof EnvironmentNotReady

/** Runs an attempt and returns its sandbox failure, or undefined if it succeeds. */
export async function findSandboxFailure(
  context: StepContext,
  attempt: () => Promise<unknown>,
): Promise<Error | undefined> {
  try {
    await attempt()
    return undefined
  } catch (error) {
    return requireSandboxFailure(context, error)
  }
}

/** Returns the error if it is a sandbox failure. Throws any other error, and the reason of an abort. */
function requireSandboxFailure({ request }: StepContext, error: unknown): Error {
  request.signal.throwIfAborted()
  if (isSandboxFailure(error)) return error
  throw error
}

/** An attempt with fewer of the agent's files. `note` is recorded if it is used. */
export type Fallback<T> = { note: string; run: () => Promise<T> }

/**
 * Runs an attempt with all files that the agent left; if its sandbox fails, with fewer and fewer of them. When a fallback
 * succeeds, the first attempt is repeated once: machine failures pass, failures caused by the agent's files remain. An agent
 * can thus spoil its own work, but not prevent a verdict.
 */
export async function withFallbacks<T>(
  context: StepContext,
  first: () => Promise<T>,
  fallbacks: Fallback<T>[],
): Promise<T> {
  let failure: Error
  try {
    return await first()
  } catch (error) {
    failure = requireSandboxFailure(context, error)
    if (context.request.harness.isControl) throw error
  }
  let last = failure
  for (const { note, run } of fallbacks) {
    try {
      const result = await run()
      try {
        return await first()
      } catch (error) {
        requireSandboxFailure(context, error)
      }
      context.notes.push(`${note} ${failure.message}`)
      return result
    } catch (error) {
      last = requireSandboxFailure(context, error)
    }
  }
  throw last
}
