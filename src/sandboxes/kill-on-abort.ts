import type { Sandbox } from './sandbox.ts'

/**
 * Kills the sandbox on abort until it has ended. A kill that fails because the engine is unreachable also rejects
 * `exited`.
 */
export function killOnAbort({ kill, exited }: Pick<Sandbox, 'kill' | 'exited'>, signal: AbortSignal): void {
  const stop = () => void kill().catch(() => {})
  if (signal.aborted) stop()
  signal.addEventListener('abort', stop, { once: true })
  const forget = () => signal.removeEventListener('abort', stop)
  exited.then(forget, forget)
}
