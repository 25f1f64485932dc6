import { appendPart, type ParsedTrajectory } from './trajectory.ts'

export type TrajectoryMessage =
  | { kind: 'part'; part: ParsedTrajectory }
  | { kind: 'end' }
  | { kind: 'failed'; reason: string }

/** Reads a trajectory in a worker. Reports all events so far whenever more have arrived. */
export function readInWorker(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  signal: AbortSignal,
  onProgress: (trajectory: ParsedTrajectory) => void,
): Promise<ParsedTrajectory> {
  const worker = new Worker(new URL('./trajectory-worker.ts', import.meta.url), { type: 'module' })
  const read = new Promise<ParsedTrajectory>((resolve, reject) => {
    let trajectory: ParsedTrajectory | undefined
    worker.onmessage = ({ data }: MessageEvent<TrajectoryMessage>) => {
      if (data.kind === 'failed') reject(new Error(`The trajectory cannot be read: ${data.reason}`))
      else if (data.kind === 'part') {
        trajectory = appendPart(trajectory, data.part)
        onProgress(trajectory)
      } else if (trajectory) resolve(trajectory)
    }
    worker.onerror = ({ message }) => reject(new Error(`The trajectory cannot be read: ${message}`))
    signal.addEventListener('abort', () => reject(signal.reason))
    worker.postMessage(body, [body])
  })
  return read.finally(() => worker.terminate())
}
