import { type ProblemAnswer, ProblemReceived, ServiceUnreachable } from '../../../src/platform/http/client.ts'
import { waitUntilIdle } from '../components/idle.ts'
import { appendPart, type ParsedTrajectory } from './trajectory.ts'

/** A message of the worker. After each part, the worker waits until the page requests the next one. */
export type TrajectoryMessage =
  | { kind: 'part'; part: ParsedTrajectory }
  | { kind: 'end' }
  | { kind: 'problem'; problem: ProblemAnswer }
  | { kind: 'unreachable' | 'failed'; reason: string }

/**
 * Downloads and parses a trajectory in a worker. Calls `onProgress` with all events so far whenever more have arrived,
 * and requests more only when the browser is idle.
 */
export function readInWorker(
  url: string,
  signal: AbortSignal,
  onProgress: (trajectory: ParsedTrajectory) => void,
): Promise<ParsedTrajectory> {
  const worker = new Worker(new URL('./trajectory-worker.ts', import.meta.url), { type: 'module' })
  const read = new Promise<ParsedTrajectory>((resolve, reject) => {
    let trajectory: ParsedTrajectory | undefined
    const addPart = (part: ParsedTrajectory) => {
      trajectory = appendPart(trajectory, part)
      onProgress(trajectory)
      void waitUntilIdle().then(() => worker.postMessage('next'))
    }
    worker.onmessage = ({ data }: MessageEvent<TrajectoryMessage>) => {
      if (data.kind === 'part') addPart(data.part)
      else if (data.kind !== 'end') reject(toReadError(data))
      else if (trajectory) resolve(trajectory)
    }
    worker.onerror = ({ message }) => reject(toReadError({ kind: 'failed', reason: message }))
    signal.addEventListener('abort', () => reject(signal.reason))
    worker.postMessage(url)
  })
  return read.finally(() => worker.terminate())
}

function toReadError(message: Exclude<TrajectoryMessage, { kind: 'part' | 'end' }>): Error {
  if (message.kind === 'problem') return new ProblemReceived(message.problem)
  if (message.kind === 'unreachable') return new ServiceUnreachable(message.reason)
  return new Error(`The trajectory cannot be read: ${message.reason}`)
}
