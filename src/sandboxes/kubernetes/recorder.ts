import { createHash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { parseExitCode } from '../kernel/exit.ts'
import { buildRelayProgram } from '../kernel/relay-program.ts'
import { type SandboxSpec, SandboxUnavailable } from '../sandbox.ts'
import { type Cluster, HELPER, MAIN } from './cluster.ts'
import { buildHeader, type CommandSpec, copyOutput, RUN_SCRIPT, type RunningCommand } from './command.ts'
import { type ExecStream, openExec, runExec } from './exec-stream.ts'
import { buildScriptCommand, buildToolCommand } from './tools.ts'

/**
 * Folder of the named pipes between the command of an adoptable sandbox and its recorder, which share this volume. The
 * sandbox sees it read-only. The pipes are removed before the command starts, so that it cannot open them by name.
 */
export const PIPES_FOLDER = '/dev/.assay-pipes'
/** Folder of the helper container, which the sandbox does not see. */
export const RECORDER_FOLDER = '/run/assay'

/**
 * Program of the helper container of an adoptable sandbox, which outlives the worker. It sends the command its input,
 * records its output up to a limit and its exit code, and runs the relay of the ports. Plain JavaScript, not compiled.
 *
 * - The socket `output` sends the recorded output from the beginning, and ends with it.
 * - The socket `status` sends a line with the seconds since the start of the command (until its end) and the time from
 *   which on files are its own. When the command has ended, and its background processes write nothing for a moment, it
 *   sends a line with the exit code and the bytes of the output.
 */
const RECORDER_PROGRAM = `const { spawn } = require('node:child_process')
const { once } = require('node:events')
const fs = require('node:fs')
const net = require('node:net')
const { pipeline } = require('node:stream')
const { setTimeout: wait } = require('node:timers/promises')
const { promisify } = require('node:util')

const [PIPES, FOLDER, MAX_BYTES, RELAY, ...PORTS] = process.argv.slice(1)
const KILLED = 137, QUIET_MS = 250, QUIET_TRIES = 12
let recordedBytes = 0, totalBytes = 0, isComplete = false, endedAt
let wake, changed, complete
const completed = new Promise((resolve) => { complete = resolve })
const announce = () => {
  wake?.()
  changed = new Promise((resolve) => { wake = resolve })
}
announce()

const openPipe = (name, flags) => promisify(fs.open)(PIPES + '/' + name, flags)
const toReader = (fd) => new net.Socket({ fd, readable: true, writable: false })

const record = async (fd, log) => {
  for await (const chunk of toReader(fd)) {
    const recorded = chunk.subarray(0, Number(MAX_BYTES) - recordedBytes)
    totalBytes += chunk.length
    if (recorded.length === 0) continue
    await log.appendFile(recorded)
    recordedBytes += recorded.length
    announce()
  }
  isComplete = true
  complete()
  announce()
}
async function* readOutput(log) {
  for (let position = 0; ; ) {
    const [more, wasComplete] = [changed, isComplete]
    const { bytesRead, buffer } = await log.read({ buffer: Buffer.alloc(65536), position })
    position += bytesRead
    if (bytesRead > 0) yield buffer.subarray(0, bytesRead)
    else if (wasComplete) return
    else await more
  }
}
// A program that runs the command and is killed reports no code.
const readCode = async (fd) => {
  let text = ''
  for await (const chunk of toReader(fd)) text = (text + chunk).slice(-10)
  endedAt = performance.now()
  return /^(\\d+)\\n$/m.exec(text)?.[1] ?? KILLED
}
const settle = async () => {
  let before = -1
  for (let tries = 0; !isComplete && before !== totalBytes && tries < QUIET_TRIES; tries += 1) {
    before = totalBytes
    await Promise.race([completed, wait(QUIET_MS)])
  }
}
const serve = (name, onConnection) =>
  net.createServer((socket) => onConnection(socket.on('error', () => {}))).listen(FOLDER + '/' + name)

const main = async () => {
  if (PORTS.length > 0) {
    const relay = spawn(process.execPath, ['-e', RELAY, ...PORTS], { stdio: ['ignore', 'pipe', 'inherit'] })
    await once(relay.stdout, 'data')
  }
  const { O_RDONLY, O_WRONLY } = fs.constants
  const [input, output, code] = await Promise.all([openPipe('input', O_WRONLY), openPipe('output', O_RDONLY), openPipe('code', O_RDONLY)])
  for (const name of ['input', 'output', 'code']) fs.unlinkSync(PIPES + '/' + name)
  const startedAt = performance.now()
  const startTime = fs.readFileSync(FOLDER + '/start-time', 'utf8')
  const log = await fs.promises.open(FOLDER + '/log', 'a+', 0o600)
  const ended = readCode(code)
  serve('output', (socket) => pipeline(() => readOutput(log), socket, () => {}))
  serve('status', async (socket) => {
    socket.write((((endedAt ?? performance.now()) - startedAt) / 1000).toFixed(3) + ' ' + startTime + '\\n')
    const code = await ended
    await settle()
    socket.end(code + ' ' + totalBytes + '\\n')
  })
  const stdin = new net.Socket({ fd: input, readable: false, writable: true })
  pipeline(fs.createReadStream(FOLDER + '/command'), stdin, () => fs.rmSync(FOLDER + '/command', { force: true }))
  await record(output, log)
}
main()`

/**
 * Script that creates the pipes and becomes the recorder. All users may open the pipes of input and output, because the
 * command may reopen its own as another user than root, for example at /dev/stdout.
 */
const RECORDER_SCRIPT = `mkdir -m 700 ${RECORDER_FOLDER} && mkfifo -m 666 ${PIPES_FOLDER}/input ${PIPES_FOLDER}/output && mkfifo -m 600 ${PIPES_FOLDER}/code && exec node -e "$@"`

/** Returns the command line of the helper container of an adoptable sandbox. */
export const buildRecorderCommand = ({ limits, ports }: Pick<SandboxSpec, 'limits' | 'ports'>): string[] => [
  'sh',
  '-c',
  RECORDER_SCRIPT,
  'assay',
  RECORDER_PROGRAM,
  PIPES_FOLDER,
  RECORDER_FOLDER,
  String(limits.outputBytes),
  buildRelayProgram({ folder: RECORDER_FOLDER }),
  ...ports.map(({ port }) => `resumable:${port}`),
]

/** Script that stores the command for the recorder, and prints the digest of what has arrived. */
const STORE_SCRIPT = `umask 077
until [ -p ${PIPES_FOLDER}/code ]; do sleep 0.05; done
cat > ${RECORDER_FOLDER}/command
printf %s "$1" > ${RECORDER_FOLDER}/start-time
sha256sum < ${RECORDER_FOLDER}/command`

/** Script that starts the command in the background, so that its exec can end. Standard error is the pipe of the exit code. */
const LAUNCH_SCRIPT = `call setsid --fork "$@" < ${PIPES_FOLDER}/input > ${PIPES_FOLDER}/output 2> ${PIPES_FOLDER}/code`

const START_TIMEOUT_MS = 60_000
/** Time that the recorder may take to report the end of a command whose processes have been killed. */
const END_TIMEOUT_MS = 5000

/** A command that outlives this process. */
export type RecordedCommand = RunningCommand & {
  /** Seconds since its start, until its end. */
  elapsedSeconds: number
  /** Time from which on changed files are its own. */
  startTime: string
}

/** Starts the command of an adoptable sandbox. All of its input is in the pod when this returns. */
export async function startRecordedCommand(
  cluster: Cluster,
  pod: string,
  { startTime, ...spec }: CommandSpec & { startTime: string },
): Promise<RecordedCommand> {
  const { kubernetes, namespace } = cluster
  const header = Buffer.from(buildHeader(spec))
  const content = Buffer.concat([header, Buffer.from(spec.input)])
  const options = { timeoutMs: START_TIMEOUT_MS }
  const stored = await runExec(
    kubernetes,
    { namespace, pod, container: HELPER },
    ['sh', '-c', STORE_SCRIPT, 'assay', startTime],
    { ...options, input: toChunks(content) },
  )
  if (stored.output.toString().slice(0, 64) !== createHash('sha256').update(content).digest('hex'))
    throw new SandboxUnavailable(`The command did not arrive in the sandbox: ${stored.errors}`)
  const run = buildToolCommand('env', '-i', ...buildScriptCommand(RUN_SCRIPT, String(header.length)))
  const target = { namespace, pod, container: MAIN }
  // The command is followed before it starts, so that little time passes until its sandbox can be recorded as adoptable.
  return followCommand(cluster, pod, spec.output, async () => {
    const { code, errors } = await runExec(kubernetes, target, buildScriptCommand(LAUNCH_SCRIPT, ...run), options)
    if (code !== 0) throw new SandboxUnavailable(`The command of a sandbox was not started: ${errors || code}`)
  })
}

async function* toChunks(content: Buffer): AsyncGenerator<Buffer> {
  yield content
}

/** Program in the helper container that copies output and status of the recorder to its own output and errors. */
const FOLLOW_PROGRAM = `const net = require('node:net')
let openSockets = 2
const onClose = () => {
  openSockets -= 1
  if (openSockets === 0) process.exit()
}
const follow = (name, target) => {
  const socket = net.connect(process.argv[1] + '/' + name, () => {
    socket.pipe(target)
    socket.on('close', onClose)
  })
  socket.on('error', () => setTimeout(follow, 20, name, target))
}
follow('output', process.stdout)
follow('status', process.stderr)
process.stdin.resume().on('end', () => process.exit())`

/** Follows the command of an adoptable sandbox, which this or another process has started. Reads all of its output. */
export async function followCommand(
  { kubernetes, namespace }: Cluster,
  pod: string,
  output: CommandSpec['output'],
  launch?: () => Promise<void>,
): Promise<RecordedCommand> {
  const target = { namespace, pod, container: HELPER }
  const stream = await openExec(kubernetes, target, ['node', '-e', FOLLOW_PROGRAM, RECORDER_FOLDER])
  const status = readStatus(stream)
  const copy = copyOutput(stream.output, output)
  const ended = status.end.then(async ({ code, bytes }) => {
    await copy.waitFor(Math.min(bytes, output.maxBytes))
    return { code, bytes }
  })
  ended.finally(() => stream.close()).catch(() => {}) // reported when `ended` is awaited
  try {
    await launch?.()
    const begun = await Promise.race([status.begun, rejectAfterTimeout()])
    return {
      ...begun,
      ended,
      // The command is dead or dying, so that its recorder reports the end.
      async stopReading() {
        const end = await Promise.race([ended.catch(() => undefined), wait(END_TIMEOUT_MS, undefined, { ref: false })])
        const bytes = end?.bytes ?? (await copy.settle())
        stream.close()
        return { bytes }
      },
      close: () => stream.close(),
    }
  } catch (error) {
    stream.close()
    throw error
  }
}

const rejectAfterTimeout = (): Promise<never> =>
  wait(START_TIMEOUT_MS, undefined, { ref: false }).then(() => {
    throw new SandboxUnavailable('The recorder of a sandbox does not answer.')
  })

type RecorderStatus = {
  begun: Promise<Pick<RecordedCommand, 'elapsedSeconds' | 'startTime'>>
  /** Exit code, and bytes of the output, also of the part that was not recorded. */
  end: Promise<{ code: number; bytes: number }>
}

/** Reads the two lines of the recorder's status. A promise rejects if the stream ends before its line has arrived. */
function readStatus(stream: ExecStream): RecorderStatus {
  const begun = Promise.withResolvers<Awaited<RecorderStatus['begun']>>()
  const end = Promise.withResolvers<Awaited<RecorderStatus['end']>>()
  let text = ''
  stream.onErrors((chunk) => {
    text += chunk.toString()
    const [, seconds, startTime] = /^([\d.]+) ([\d.]+)\n/.exec(text) ?? []
    if (startTime !== undefined) begun.resolve({ elapsedSeconds: Number(seconds), startTime })
    const [, codeText, bytesText] = /\n(\d+) (\d+)\n/.exec(text) ?? []
    const code = parseExitCode(codeText)
    if (code !== undefined) end.resolve({ code, bytes: Number(bytesText) })
  })
  const reject = (error: unknown): void => {
    begun.reject(error)
    end.reject(error)
  }
  stream.code.then(() => reject(new SandboxUnavailable(`The recorder of a sandbox has ended: ${text}`)), reject)
  begun.promise.catch(() => {}) // reported when it is awaited
  return { begun: begun.promise, end: end.promise }
}
