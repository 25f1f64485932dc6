import { openThreads, TaskFailed } from '../platform/threads.ts'
import type { BodyTasks } from './body-tasks.ts'
import {
  type EditedBody,
  type EditInput,
  editBody,
  type InspectInput,
  inspectBody,
  type LimitInput,
  limitBody,
  type MeterInput,
  meterBody,
  type RequestInspection,
} from './inspect-body.ts'
import type { MeteredAnswer } from './wire-protocol.ts'

const threads = openThreads<BodyTasks>(new URL('./body-tasks.ts', import.meta.url), {
  timeoutMs: 60_000,
  memoryMb: 1024,
})

/** Smaller bodies are parsed faster than they can be passed to a thread. */
const SMALL_BYTES = 256 * 1024
const isSmall = ({ bytes }: { bytes: Uint8Array }): boolean => bytes.length <= SMALL_BYTES

/** Runs `inspectBody`, in a thread if the body is large: parsing it would block all other calls. */
export async function inspectRequest(input: InspectInput): Promise<RequestInspection> {
  if (isSmall(input)) return inspectBody(input)
  return threads.run('inspectBody', input).catch((error: unknown) => {
    if (!(error instanceof TaskFailed)) throw error
    return { kind: 'refused', reason: 'malformed', message: 'The body takes too long to parse.' }
  })
}

/** Runs `limitBody`, in a thread if the body is large. */
export const limitRequest = async (input: LimitInput): Promise<Uint8Array> =>
  isSmall(input) ? limitBody(input) : threads.run('limitBody', input)

/** Runs `editBody`, in a thread if the body is large. */
export const editRequest = async (input: EditInput): Promise<EditedBody> =>
  isSmall(input) ? editBody(input) : threads.run('editBody', input)

/** Runs `meterBody`, in a thread if the answer is large. An answer that cannot be parsed in time reports no usage. */
export const meterAnswer = async (input: MeterInput): Promise<MeteredAnswer> =>
  isSmall(input)
    ? meterBody(input)
    : threads.run('meterBody', input).catch(() => meterBody({ ...input, bytes: new Uint8Array() }))
