import { type MessagePort, parentPort } from 'node:worker_threads'
import { errorText } from '../error-text.ts'
import type { SourceAnswer, TaskAnswer, TaskMessage, TaskTable } from './threads.ts'

/** A stream of the main thread. Its return value comes after the last chunk. */
export type Chunks = AsyncGenerator<Buffer, unknown>

/** Serves the tasks of a script that openThreads runs. */
export function serveTasks(tasks: TaskTable): void {
  parentPort?.on('message', async ({ name, input, ports }: TaskMessage) => {
    const answer = await answerOf(() => tasks[name]?.(input, ports.map(chunksFrom)))
    for (const port of ports) port.close()
    parentPort?.postMessage(answer)
  })
}

async function answerOf(work: () => unknown): Promise<TaskAnswer> {
  try {
    return { result: await work() }
  } catch (error) {
    return { error: errorText(error) }
  }
}

async function* chunksFrom(port: MessagePort): Chunks {
  for (;;) {
    const answer = await new Promise<SourceAnswer>((resolve) => {
      port.once('message', resolve)
      port.postMessage('next')
    })
    if ('error' in answer) throw new Error(answer.error)
    if ('end' in answer) return answer.end
    const { buffer, byteOffset, byteLength } = answer.chunk
    yield Buffer.from(buffer, byteOffset, byteLength)
  }
}
