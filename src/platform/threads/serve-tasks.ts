import { type MessagePort, parentPort } from 'node:worker_threads'
import { errorText } from '../errors.ts'
import type { SourceAnswer, TaskAnswer, TaskMessage, TaskTable } from './threads.ts'

/** A stream from the main thread. Its return value follows the last chunk. */
export type ChunkStream = AsyncGenerator<Buffer, unknown>

/** Runs the tasks that the main thread requests. Called by the script of a worker thread that `openThreads` starts. */
export function serveTasks(tasks: TaskTable): void {
  parentPort?.on('message', async ({ name, input, ports }: TaskMessage) => {
    const answer = await toTaskAnswer(() => tasks[name]?.(input, ports.map(readChunks)))
    for (const port of ports) port.close()
    parentPort?.postMessage(answer)
  })
}

async function toTaskAnswer(work: () => unknown): Promise<TaskAnswer> {
  try {
    return { result: await work() }
  } catch (error) {
    return { error: errorText(error) }
  }
}

async function* readChunks(port: MessagePort): ChunkStream {
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
