import { ProblemReceived, ServiceUnreachable, toError } from '../../../src/platform/http/client.ts'
import type { TrajectoryMessage } from './read-in-worker.ts'
import { readTrajectory } from './trajectory.ts'

// A worker that downloads and reads one trajectory, so that the page stays responsive. The first message that it receives
// is the address of the trajectory; every other one requests the next part.

const send = (message: TrajectoryMessage): void => postMessage(message)
let sendNext = (): void => {}

addEventListener('message', ({ data: url }: MessageEvent<string>) => void read(url).catch(report), { once: true })
addEventListener('message', () => sendNext())

async function read(url: string): Promise<void> {
  const response = await fetch(url).catch((error: unknown) => {
    throw new ServiceUnreachable('The service does not respond.', { cause: error })
  })
  if (!response.ok || !response.body) throw toError(url, response, await response.text())
  await readTrajectory(response.body, (part) => {
    send({ kind: 'part', part })
    return new Promise((resolve) => {
      sendNext = resolve
    })
  })
  send({ kind: 'end' })
}

function report(error: unknown): void {
  if (error instanceof ProblemReceived) send({ kind: 'problem', problem: error.problem })
  else if (error instanceof ServiceUnreachable) send({ kind: 'unreachable', reason: error.message })
  else send({ kind: 'failed', reason: String(error) })
}
