import { availableParallelism } from 'node:os'
import { MessageChannel, type MessagePort, parentPort, Worker } from 'node:worker_threads'
import { errorText } from './errors.ts'

/** A stream of the main thread that a task reads on demand. It is opened at the first read. */
export type ThreadSource = () => AsyncGenerator<Uint8Array, unknown>

/** The functions that a script serves with `serveTasks`. Inputs and results must survive a structured clone. */
// biome-ignore lint/suspicious/noExplicitAny: any function of one input fits
export type TaskTable = Record<string, (input: any, sources: any) => unknown>

type TaskMessage = { name: string; input: unknown; ports: MessagePort[] }
type TaskAnswer = { result: unknown } | { error: string }
type SourceAnswer = { chunk: Uint8Array } | { end: unknown } | { error: string }

/** Thrown when a task threw an error, or ran out of time or memory. */
export class TaskFailed extends Error {
  override name = 'TaskFailed'
}

type ThreadLimits = {
  /** Maximum time of one task. Its thread is ended after it. */
  timeoutMs: number
  /** Maximum size of the JavaScript heap of one thread. */
  memoryMb: number
  /** Minimum number of threads, also on a machine with two cores. Default 1. */
  threadsMin?: number | undefined
}

type ThreadRunOptions = {
  sources?: readonly ThreadSource[]
  /** Groups take turns, and each leaves a thread to the others. */
  group?: string | undefined
}

type Threads<Tasks extends TaskTable> = {
  /** Runs one task of the script. Rejects with TaskFailed. */
  run<Name extends keyof Tasks & string>(
    name: Name,
    input: Parameters<Tasks[Name]>[0],
    options?: ThreadRunOptions,
  ): Promise<Awaited<ReturnType<Tasks[Name]>>>
}

type ThreadTask = Omit<TaskMessage, 'ports'> & {
  sources: readonly ThreadSource[]
  group: string | undefined
  resolve: (result: unknown) => void
  reject: (error: unknown) => void
}

/** Maximum number of threads of a pool. Leaves one core to the event loop. */
const THREADS_MAX = Math.max(1, Math.min(4, availableParallelism() - 1))

/**
 * Opens a thread pool for work on untrusted input that would block the event loop: parsing, comparing, unpacking. Threads
 * are started on demand, reused, and do not keep the process alive while idle.
 */
export function openThreads<Tasks extends TaskTable>(script: URL, limits: ThreadLimits): Threads<Tasks> {
  const threadsMax = Math.max(THREADS_MAX, limits.threadsMin ?? 1)
  const waiting: ThreadTask[] = []
  const idle: Worker[] = []
  const running = new Set<ThreadTask>()

  const startNextTask = (): void => {
    const task = running.size < threadsMax ? takeNextTask(waiting, running, threadsMax) : undefined
    if (!task) return
    running.add(task)
    const worker = idle.pop() ?? startWorker(script, limits)
    void runTask(worker, task, limits.timeoutMs).then((isReusable) => {
      running.delete(task)
      if (isReusable) idle.push(worker)
      else void worker.terminate()
      startNextTask()
    })
  }

  return {
    run: (name, input, { sources = [], group } = {}) => {
      const { promise, resolve, reject } = Promise.withResolvers<Awaited<ReturnType<Tasks[typeof name]>>>()
      waiting.push({ name, input, sources, group, resolve: resolve as ThreadTask['resolve'], reject })
      startNextTask()
      return promise
    },
  }
}

/** Takes the first task whose group leaves a thread to the others. Other tasks of its group move to the end. */
function takeNextTask(
  waiting: ThreadTask[],
  running: ReadonlySet<ThreadTask>,
  threadsMax: number,
): ThreadTask | undefined {
  const groupMax = Math.max(1, threadsMax - 1)
  const isBusy = ({ group }: ThreadTask) =>
    group !== undefined && [...running].filter((task) => task.group === group).length >= groupMax
  const index = waiting.findIndex((task) => !isBusy(task))
  if (index === -1) return undefined
  const [task] = waiting.splice(index, 1)
  const isOfGroup = ({ group }: ThreadTask) => group !== undefined && group === task?.group
  // A stable sort: tasks of other groups (0) come before those of this group (1), otherwise in the order of arrival.
  const toSortKey = (each: ThreadTask) => (isOfGroup(each) ? 1 : 0)
  waiting.sort((a, b) => toSortKey(a) - toSortKey(b))
  return task
}

/** True in the npm package, which contains JavaScript only. */
const IS_COMPILED = import.meta.filename.endsWith('.js')

function startWorker(script: URL, { memoryMb }: ThreadLimits): Worker {
  const worker = new Worker(IS_COMPILED ? new URL(script.href.replace(/\.ts$/, '.js')) : script, {
    resourceLimits: { maxOldGenerationSizeMb: memoryMb },
  })
  worker.on('error', () => {}) // A running task has its own listener.
  return worker
}

/** Runs a task in a thread and settles its promise. Returns false if the thread cannot be reused. */
async function runTask(worker: Worker, task: ThreadTask, timeoutMs: number): Promise<boolean> {
  const { name, input, resolve, reject } = task
  const sources = task.sources.map(serveSource)
  const ended = Promise.withResolvers<TaskAnswer | { died: string }>()
  const onMessage = (answer: TaskAnswer) => ended.resolve(answer)
  const onError = (error: unknown) => ended.resolve({ died: errorText(error) })
  const onExit = () => ended.resolve({ died: 'The thread exited.' })
  const timer = setTimeout(() => ended.resolve({ died: `Timed out after ${timeoutMs / 1000} seconds.` }), timeoutMs)
  worker.once('message', onMessage).once('error', onError).once('exit', onExit)
  worker.ref()
  const ports = sources.map(({ port }) => port)
  worker.postMessage({ name, input, ports } satisfies TaskMessage, ports)

  const answer = await ended.promise
  clearTimeout(timer)
  worker.off('message', onMessage).off('error', onError).off('exit', onExit)
  worker.unref()
  for (const source of sources) source.close()
  if ('result' in answer) resolve(answer.result)
  else reject(new TaskFailed('died' in answer ? answer.died : answer.error))
  return !('died' in answer)
}

/** Answers each request of the thread with the next chunk, so that no chunks pile up in the thread. */
function serveSource(open: ThreadSource): { port: MessagePort; close(): void } {
  const { port1: mainPort, port2: port } = new MessageChannel()
  let chunks: ReturnType<ThreadSource> | undefined
  mainPort.on('message', () => {
    chunks ??= open()
    chunks.next().then(
      ({ done, value }) => {
        if (done) return mainPort.postMessage({ end: value } satisfies SourceAnswer)
        const chunk = new Uint8Array(value as Uint8Array) // Copied: a view would send the whole buffer that it is part of.
        mainPort.postMessage({ chunk } satisfies SourceAnswer, [chunk.buffer])
      },
      (error: unknown) => mainPort.postMessage({ error: errorText(error) } satisfies SourceAnswer),
    )
  })
  return {
    port,
    close() {
      mainPort.close()
      void chunks?.return(undefined).catch(() => {})
    },
  }
}

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
