import { SandboxUnavailable } from '../sandbox.ts'

/** Waits for a result until the deadline, then throws SandboxUnavailable with what `onLate` returns. */
export async function withDeadline<T>(work: Promise<T>, timeoutMs: number, onLate: () => string): Promise<T> {
  const late = Promise.withResolvers<never>()
  const clock = setTimeout(() => late.reject(new SandboxUnavailable(onLate())), timeoutMs)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(clock)
  }
}
