import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { WebSocket } from 'ws'
import { SandboxUnavailable } from '../sandbox.ts'
import { ignoringStatus, type Kubernetes } from './client.ts'

/** Input and output of a process in a container. */
export type ExecStream = {
  /** Standard output, with backpressure: nothing is received while it is not read. */
  output: Readable
  /** Calls back for every chunk of standard error. */
  onErrors(listener: (chunk: Buffer) => void): void
  /** Sends standard input and waits until it has been passed on. */
  write(chunk: Buffer): Promise<void>
  end(): Promise<void>
  /**
   * Resolves with the exit code. Rejects with SandboxUnavailable when the stream ends without a status, which says
   * nothing about the process.
   */
  code: Promise<number>
  /** Stops listening. The process may continue. */
  close(): void
}

type ContainerRef = { namespace: string; pod: string; container: string }

const CHANNEL = { input: 0, output: 1, errors: 2, status: 3, close: 255 }
const CHUNK_BYTES = 32 * 1024
const PING_MS = 20_000
const ERRORS_MAX_BYTES = 64 * 1024

/** Starts a process in a container. Its command is visible to the API server, so it must not contain secrets. */
export async function openExec(
  kubernetes: Kubernetes,
  { namespace, pod, container }: ContainerRef,
  command: string[],
): Promise<ExecStream> {
  const query = { container, command, stdin: 'true', stdout: 'true', stderr: 'true' }
  return openStream(kubernetes, `/api/v1/namespaces/${namespace}/pods/${pod}/exec`, query)
}

/** Connects to the standard input and output of a container's first process. */
export async function openAttach(
  kubernetes: Kubernetes,
  { namespace, pod, container }: ContainerRef,
): Promise<ExecStream> {
  const query = { container, stdin: 'true', stdout: 'true', stderr: 'true' }
  return openStream(kubernetes, `/api/v1/namespaces/${namespace}/pods/${pod}/attach`, query)
}

async function openStream(
  kubernetes: Kubernetes,
  path: string,
  query: Record<string, string | string[]>,
): Promise<ExecStream> {
  const socket = await kubernetes.openSocket(path, query).catch(ignoringStatus(404))
  if (socket === undefined) throw new SandboxUnavailable('The pod of a sandbox no longer exists.')
  return toStream(socket)
}

function toStream(socket: WebSocket): ExecStream {
  const output = new Readable({
    read() {
      if (socket.isPaused) socket.resume()
    },
    destroy: terminateOnDestroy(socket),
  })
  output.on('error', () => {}) // reported by `code`
  const code = Promise.withResolvers<number>()
  code.promise.catch(() => {}) // reported when it is awaited
  let onErrors: (chunk: Buffer) => void = () => {}
  let hasStatus = false
  const ping = setInterval(() => socket.ping(), PING_MS)
  socket.on('message', (data: Buffer) => {
    const content = data.subarray(1)
    if (data[0] === CHANNEL.output && content.length > 0 && !output.push(content)) socket.pause()
    if (data[0] === CHANNEL.errors) onErrors(content)
    if (data[0] !== CHANNEL.status) return
    hasStatus = true
    settleExitCode(code, content.toString())
  })
  socket.once('close', (status) => {
    clearInterval(ping)
    const error = new SandboxUnavailable(`A stream to the cluster ended without a result (${status}).`)
    code.reject(error)
    // A truncated archive must not look like a complete one.
    if (hasStatus) output.push(null)
    else output.destroy(error)
  })
  socket.on('error', () => {}) // a close follows
  const send = (data: Buffer): Promise<void> =>
    new Promise((resolve, reject) => {
      socket.send(data, (error) => (error ? reject(toLostError(error)) : resolve()))
    })
  return {
    output,
    code: code.promise,
    onErrors(listener) {
      onErrors = listener
    },
    async write(chunk) {
      for (let at = 0; at < chunk.length; at += CHUNK_BYTES)
        await send(Buffer.concat([Buffer.of(CHANNEL.input), chunk.subarray(at, at + CHUNK_BYTES)]))
    },
    end: () => send(Buffer.of(CHANNEL.close, CHANNEL.input)),
    close: () => void output.destroy(),
  }
}

const toLostError = (cause: Error): SandboxUnavailable =>
  new SandboxUnavailable(`The stream to the cluster was lost: ${cause.message}`, { cause })

const terminateOnDestroy = (socket: WebSocket) => (error: Error | null, done: (error?: Error | null) => void) => {
  socket.terminate()
  done(error)
}

type ExitCodeResolvers = { resolve(code: number): void; reject(error: Error): void }
type ExecStatus = { status: string; message?: string; details?: { causes?: { reason: string; message: string }[] } }

function settleExitCode({ resolve, reject }: ExitCodeResolvers, content: string): void {
  const { status, message, details }: ExecStatus = JSON.parse(content)
  const cause = details?.causes?.find(({ reason }) => reason === 'ExitCode')
  if (status === 'Success') resolve(0)
  else if (cause) resolve(Number(cause.message))
  else reject(new SandboxUnavailable(`The cluster could not run a program in a sandbox: ${message}`))
}

type ExecOptions = {
  input?: AsyncIterable<Buffer> | undefined
  timeoutMs: number
}

type ExecResult = { code: number; output: Buffer; errors: string }

/** Runs a trusted program with little output, and waits for its end. */
export async function runExec(
  kubernetes: Kubernetes,
  target: ContainerRef,
  command: string[],
  { input, timeoutMs }: ExecOptions,
): Promise<ExecResult> {
  return withExec(kubernetes, target, { command, timeoutMs }, async (stream) => {
    const errors = collectErrors(stream)
    const read = buffer(stream.output).catch(() => Buffer.alloc(0))
    for await (const chunk of input ?? []) await stream.write(chunk)
    await stream.end()
    const [code, output] = await Promise.all([stream.code, read])
    return { code, output, errors: errors() }
  })
}

/** Starts a process and passes its stream to `use`. The stream is closed afterwards, and after the timeout. */
export async function withExec<Result>(
  kubernetes: Kubernetes,
  target: ContainerRef,
  { command, timeoutMs }: { command: string[]; timeoutMs: number },
  use: (stream: ExecStream) => Promise<Result>,
): Promise<Result> {
  const stream = await openExec(kubernetes, target, command)
  const timer = setTimeout(() => stream.close(), timeoutMs)
  try {
    return await use(stream)
  } finally {
    clearTimeout(timer)
    stream.close()
  }
}

/** Returns a function that returns the errors so far, up to a limit. */
export function collectErrors(stream: ExecStream): () => string {
  const chunks: Buffer[] = []
  let bytes = 0
  stream.onErrors((chunk) => {
    if (bytes < ERRORS_MAX_BYTES) chunks.push(chunk)
    bytes += chunk.length
  })
  return () => Buffer.concat(chunks).toString()
}
