import { openThreads, TaskFailed } from '../platform/threads/threads.ts'
import type { BodyTasks } from './body-tasks.ts'
import {
  type InspectInput,
  type Inspection,
  inspectBody,
  type LimitInput,
  limitBody,
  type MeterInput,
  meterBody,
} from './inspect-body.ts'
import type { Metered } from './wire.ts'

const threads = openThreads<BodyTasks>(new URL('./body-tasks.ts', import.meta.url), {
  ...{ timeoutMs: 60_000, memoryMb: 1024 },
})

/** A smaller body is read in less time than it takes to hand it to a thread. */
const SMALL_BYTES = 256 * 1024
const isSmall = ({ bytes }: { bytes: Uint8Array }): boolean => bytes.length <= SMALL_BYTES

/** The functions of inspect-body.ts, in a thread where a body is large: parsing it would block all other calls. */
export async function inspect(input: InspectInput): Promise<Inspection> {
  if (isSmall(input)) return inspectBody(input)
  return threads.run('inspectBody', input).catch((error: unknown) => {
    if (!(error instanceof TaskFailed)) throw error
    return { kind: 'refused', reason: 'malformed', message: 'The body takes too long to read.' }
  })
}

export const limit = async (input: LimitInput): Promise<Uint8Array> =>
  isSmall(input) ? limitBody(input) : threads.run('limitBody', input)

/** Of an answer that cannot be read nothing is known. */
export const meter = async (input: MeterInput): Promise<Metered> =>
  isSmall(input)
    ? meterBody(input)
    : threads.run('meterBody', input).catch(() => meterBody({ ...input, bytes: new Uint8Array() }))
