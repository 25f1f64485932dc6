import { SandboxUnavailable, SandboxUnsupported } from '../sandboxes/sandbox.ts'
import type { Bench } from './bench.ts'
import { NeverReady } from './health.ts'

/** Of a sandbox that could not be had, or not be made ready. */
export const isTrouble = (error: unknown): error is Error =>
  error instanceof SandboxUnavailable || error instanceof SandboxUnsupported || error instanceof NeverReady

/** Undefined when it went well. */
export async function troubleOf(bench: Bench, attempt: () => Promise<unknown>): Promise<Error | undefined> {
  try {
    await attempt()
    return undefined
  } catch (error) {
    return troubleIn(bench, error)
  }
}

/** Throws what is none, and what an abort brought about. */
function troubleIn({ request }: Bench, error: unknown): Error {
  request.signal.throwIfAborted()
  if (isTrouble(error)) return error
  throw error
}

/** `without`: what is said when it had to be done this way. */
export type Way<T> = { without: string; run: () => Promise<T> }

/**
 * Does something with all that the agent left; where that makes trouble, with less and less of it. When less of it works,
 * all of it is tried once more: a machine's trouble passes, and what an agent left stays. So it can spoil its own work and
 * not the verdict.
 */
export async function withLeftovers<T>(bench: Bench, first: () => Promise<T>, ways: Way<T>[]): Promise<T> {
  let trouble: Error
  try {
    return await first()
  } catch (error) {
    trouble = troubleIn(bench, error)
    if (bench.request.harness.isControl) throw error
  }
  let last = trouble
  for (const { without, run } of ways) {
    try {
      const result = await run()
      return await again(bench, first, () => {
        bench.notes.push(`${without} ${trouble.message}`)
        return result
      })
    } catch (error) {
      last = troubleIn(bench, error)
    }
  }
  throw last
}

async function again<T>(bench: Bench, attempt: () => Promise<T>, otherwise: () => T): Promise<T> {
  try {
    return await attempt()
  } catch (error) {
    troubleIn(bench, error)
    return otherwise()
  }
}
