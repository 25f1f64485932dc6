import type { Sandbox } from './sandbox.ts'

/** Until it has ended. Whether a kill arrived is told by `exited`: an engine that cannot be reached breaks that, too. */
export function killOnAbort({ kill, exited }: Pick<Sandbox, 'kill' | 'exited'>, signal: AbortSignal): void {
  const stop = () => void kill().catch(() => {})
  if (signal.aborted) stop()
  signal.addEventListener('abort', stop, { once: true })
  const forget = () => signal.removeEventListener('abort', stop)
  exited.then(forget, forget)
}
