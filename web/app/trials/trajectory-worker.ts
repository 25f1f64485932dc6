import { ProblemReceived, ServiceUnreachable, toError } from '../../../src/platform/http/client.ts'
import type { TrajectoryMessage } from './read-in-worker.ts'
import { readTrajectory } from './trajectory.ts'

// A web worker that downloads and parses one trajectory, so that the page stays responsive. The first message from the page
// is the address of the trajectory; every other message requests the next part.

const send = (message: TrajectoryMessage): void => postMessage(message)
/** Lets `readTrajectory` continue after a part. */
let continueReading = (): void => {}

addEventListener('message', ({ data: url }: MessageEvent<string>) => void download(url).catch(sendError), {
  once: true,
})
addEventListener('message', () => continueReading())

async function download(url: string): Promise<void> {
  const response = await fetch(url).catch((error: unknown) => {
    throw new ServiceUnreachable('The service does not respond.', { cause: error })
  })
  if (!response.ok || !response.body) throw toError(url, response, await response.text())
  await readTrajectory(response.body, (part) => {
    send({ kind: 'part', part })
    return new Promise((resolve) => {
      continueReading = resolve
    })
  })
  send({ kind: 'end' })
}

function sendError(error: unknown): void {
  if (error instanceof ProblemReceived) send({ kind: 'problem', problem: error.problem })
  else if (error instanceof ServiceUnreachable) send({ kind: 'unreachable', reason: error.message })
  else send({ kind: 'failed', reason: String(error) })
}
