import { open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { CAPABILITIES, formatBoundingSet, type UserAccount } from '../kernel/accounts.ts'
import { parseExitCode } from '../kernel/exit.ts'
import { quote, STANDARD_PATH } from '../kernel/shell.ts'
import { SandboxUnsupported } from '../sandbox.ts'
import { type Cluster, MAIN } from './cluster.ts'
import { type ExecStream, openExec } from './exec-stream.ts'
import { buildScriptCommand, buildToolCommand } from './tools.ts'

export type CommandSpec = {
  command: string[]
  account: UserAccount
  env: Record<string, string>
  workdir: string
  input: string | Buffer
  /** Time after which the command is killed, even if this process has died. */
  seconds: number
  output: { file: string; maxBytes: number }
}

export type RunningCommand = {
  /** Resolves when the command has ended and its output is written, even if its background processes continue. */
  ended: Promise<{ code: number; bytes: number }>
  /** Stops reading the output. The command may continue. Returns the bytes so far. */
  stopReading(): Promise<{ bytes: number }>
  /** Stops reading at once. The command may continue. */
  close(): void
}

/**
 * Script that runs a command. It reads its settings from the input, because the command line of an exec is visible to
 * the API server. The exit code is also written to the error stream: the exec itself ends only when all background
 * processes have closed the output.
 */
export const RUN_SCRIPT = `eval "$(call head -c "$1")"
exec 3>&2
"$@" 2>&1 3>&-
code=$?
echo "$code" >&3
exit $code`

const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

/** Starts a command in a sandbox. */
export async function startCommand(cluster: Cluster, pod: string, spec: CommandSpec): Promise<RunningCommand> {
  const header = Buffer.from(buildHeader(spec))
  const { kubernetes, namespace } = cluster
  const script = buildToolCommand('env', '-i', ...buildScriptCommand(RUN_SCRIPT, String(header.length)))
  const stream = await openExec(kubernetes, { namespace, pod, container: MAIN }, script)
  const reported = readReportedCode(stream)
  const outputCopy = copyOutput(stream.output, spec.output)
  void sendInput(stream, header, spec.input).catch(() => {}) // a command may end without reading its input
  const exit = Promise.all([stream.code, outputCopy.done]).then(([code, bytes]) => ({ code, bytes }))
  const reportedExit = reported.then(async (code) => ({ code, bytes: await outputCopy.settle() }))
  const ended = Promise.any([exit, reportedExit]).catch((error: AggregateError) => Promise.reject(error.errors[0]))
  ended.finally(() => stream.close()).catch(() => {}) // reported when `ended` is awaited
  return {
    ended,
    async stopReading() {
      const bytes = await outputCopy.settle()
      stream.close()
      return { bytes }
    },
    close: () => stream.close(),
  }
}

async function sendInput(stream: ExecStream, header: Buffer, input: string | Buffer): Promise<void> {
  await stream.write(header)
  await stream.write(Buffer.from(input))
  await stream.end()
}

/** Builds the settings of a command as a shell script. */
export function buildHeader({ command, account, env, workdir, seconds }: CommandSpec): string {
  const variables = { PATH: STANDARD_PATH, HOME: account.home, ...env }
  const invalid = Object.keys(variables).find((name) => !VARIABLE_NAME.test(name))
  if (invalid !== undefined) throw new SandboxUnsupported(`Invalid name of a variable: ${JSON.stringify(invalid)}`)
  const { uid, gid, groups = [gid] } = account
  // The bounding set is reduced first, so that the lookup of users already has no more rights than the command.
  const restricted = buildToolCommand(
    'setpriv',
    '--inh-caps',
    '-all',
    '--bounding-set',
    formatBoundingSet(CAPABILITIES),
    '--',
  )
  const identity = ['--reuid', String(uid), '--regid', String(gid), '--groups', groups.join(',')]
  const asUser = uid === 0 && gid === 0 ? [] : buildToolCommand('setpriv', ...identity, '--inh-caps', '-all', '--')
  const limited = buildToolCommand(
    'timeout',
    '-s',
    'KILL',
    String(Math.ceil(seconds)),
    ...restricted,
    ...asUser,
    ...command,
  )
  return [
    ...(asUser.length > 0 ? ['call chmod 666 /proc/self/fd/0 /proc/self/fd/1 2> /dev/null'] : []),
    ...Object.entries(variables).map(([name, value]) => `export ${name}=${quote(value)}`),
    `cd -- ${quote(workdir)} || exit`,
    'unset OLDPWD',
    `set -- ${limited.map(quote).join(' ')}`,
  ].join('\n')
}

/** Returns the exit code that the script writes to the error stream. Rejects when the stream ends without one. */
function readReportedCode(stream: ExecStream): Promise<number> {
  let text = ''
  return new Promise((resolve, reject) => {
    stream.onErrors((chunk) => {
      text = (text + chunk.toString()).slice(-10)
      const code = parseExitCode(/^(\d+)\n$/m.exec(text)?.[1])
      if (code !== undefined) resolve(code)
    })
    stream.code.catch(reject)
  })
}

/** Reading stops when no output came for `QUIET_MS`, and after `DRAIN_MS` at the latest. */
const QUIET_MS = 250
const DRAIN_MS = 3000
const POLL_MS = 20
/** Maximum wait for output that is known to exist but does not arrive. */
const STALL_MS = 10_000

type CopiedOutput = {
  /** Resolves with the number of bytes when the output has ended or is no longer read. */
  done: Promise<number>
  /** Waits until no output has arrived for `QUIET_MS`. Resolves with the number of bytes so far. */
  settle(): Promise<number>
  /** Waits until this many bytes have been copied, or until the output pauses. */
  waitFor(bytes: number): Promise<void>
}

/** Copies output to a file, up to a limit, and counts the rest. */
export function copyOutput(output: Readable, { file, maxBytes }: CommandSpec['output']): CopiedOutput {
  const state = { bytes: 0 }
  const copy = async (): Promise<void> => {
    await using target = await open(file, 'w', 0o600)
    for await (const chunk of output) {
      const remaining = Math.max(0, maxBytes - state.bytes)
      if (remaining > 0) await target.writeFile(chunk.length <= remaining ? chunk : chunk.subarray(0, remaining))
      state.bytes += chunk.length
    }
  }
  // The end of the stream is reported by its exit code.
  const done = copy().then(
    () => state.bytes,
    () => state.bytes,
  )
  return {
    done,
    async settle() {
      const deadline = performance.now() + DRAIN_MS
      let bytesBefore: number
      do {
        bytesBefore = state.bytes
        await Promise.race([done, wait(QUIET_MS)])
      } while (state.bytes !== bytesBefore && performance.now() < deadline)
      return state.bytes
    },
    async waitFor(bytes) {
      let isDone = false
      const ended = done.then(() => {
        isDone = true
      })
      let lastChange = { bytes: state.bytes, at: performance.now() }
      while (!isDone && state.bytes < bytes && performance.now() - lastChange.at < STALL_MS) {
        await Promise.race([ended, wait(POLL_MS)])
        if (state.bytes !== lastChange.bytes) lastChange = { bytes: state.bytes, at: performance.now() }
      }
    },
  }
}
