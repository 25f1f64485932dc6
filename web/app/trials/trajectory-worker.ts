import type { TrajectoryMessage } from './read-in-worker.ts'
import { readTrajectory } from './trajectory.ts'

// Reads one trajectory, so that the page stays responsive meanwhile.

const send = (message: TrajectoryMessage): void => postMessage(message)

addEventListener('message', ({ data }: MessageEvent<ReadableStream<Uint8Array<ArrayBuffer>>>) => {
  readTrajectory(data, (part) => send({ kind: 'part', part })).then(
    () => send({ kind: 'end' }),
    (error: unknown) => send({ kind: 'failed', reason: String(error) }),
  )
})
