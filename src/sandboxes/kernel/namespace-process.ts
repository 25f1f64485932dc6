import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { open as openDescriptor } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { Socket } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import { promisify } from 'node:util'
import { SandboxUnavailable } from '../sandbox.ts'
import { quote, STANDARD_PATH } from './shell.ts'

type ScriptResult = { code: number; text: string }

/**
 * A shell in its own mount namespace. All mounts of a sandbox are created there, so that the kernel removes them when the
 * shell ends. The shell ends with this process, from which it reads its input.
 */
export type NamespaceProcess = {
  pid: number
  /** Path of its root for this process. */
  root: string
  /** Runs one script at a time. `text` is the output of the script. Only the end of a long output is kept. */
  run(script: string, onText?: (text: string) => void): Promise<ScriptResult>
  /** Like `run`, but throws SandboxUnavailable if the script fails. `step` is its name in the message. */
  runOrThrow(step: string, script: string): Promise<string>
  end(): Promise<void>
  hasExited(): boolean
  /** Sets whether this process stays alive as long as the namespace process does. */
  setReferenced(isReferenced: boolean): void
  /** Kills the process and the script that it runs. */
  kill(): void
}

export type NamespaceOptions = {
  rootless: boolean
  /** Process whose mounts are copied. Undefined for the mounts of this process. */
  copyMountsOf: NamespaceProcess | undefined
  cwd: string
  /** Creates a process namespace too, for a runtime whose sandboxes would outlive it. */
  ownsProcesses?: boolean
  /** Creates a network namespace: an isolated one, or one that the given process can reach into. */
  network?: 'isolated' | NamespaceProcess | undefined
}

export async function startNamespaceProcess(options: NamespaceOptions): Promise<NamespaceProcess> {
  const [program, ...args] = buildNamespaceCommand(options)
  const child = spawn(program, args, {
    cwd: options.cwd,
    env: { PATH: STANDARD_PATH },
    stdio: ['pipe', 'pipe', 'ignore', ...(await loadHidingStdio())],
  })
  const failed = once(child, 'error').then(([error]) => Promise.reject(error))
  await Promise.race([once(child, 'spawn'), failed]).catch((error: unknown) => {
    throw new SandboxUnavailable(`Sandboxes cannot be started: ${program} did not run (${String(error)}).`)
  })
  failed.catch(() => {})
  const { stdin, stdout } = child
  if (stdin === null || stdout === null) throw new Error('The child process has no pipes.')
  return toNamespaceProcess(child, stdin, stdout)
}

function buildNamespaceCommand({
  rootless,
  copyMountsOf,
  ownsProcesses = false,
  network,
}: NamespaceOptions): [string, ...string[]] {
  const user = rootless && copyMountsOf === undefined ? ['--user', '--map-root-user'] : []
  const net = network === 'isolated' ? ['--net'] : []
  const mounts = ['unshare', ...user, ...net, '--mount', '--propagation', 'private']
  // If this process dies, the shell ends: before its first line by the end of its input, later by the signal.
  const dieWithUs = ['setpriv', '--pdeathsig', 'KILL']
  const shell = ownsProcesses
    ? [...dieWithUs, ...mounts, '--pid', '--fork', '--kill-child=KILL', '--mount-proc', 'sh']
    : [...mounts, ...dieWithUs, 'sh']
  const joined =
    copyMountsOf === undefined ? shell : [...buildEnterArgs(copyMountsOf.pid, rootless, '--mount'), ...shell]
  const [program = '', ...args] = [...buildNetworkArgs(network, rootless), ...joined]
  return [program, ...args]
}

/** Returns the command line prefix that enters the namespaces of a process. */
export function buildEnterArgs(pid: number, rootless: boolean, ...namespaces: string[]): string[] {
  const user = rootless ? ['--user', '--preserve-credentials'] : []
  return ['nsenter', '-t', String(pid), ...user, ...namespaces, '--']
}

/** Enters the user namespace of the sandbox network, because only its root user may connect the new network. */
function buildNetworkArgs(network: NamespaceOptions['network'], rootless: boolean): string[] {
  if (network === undefined || network === 'isolated') return []
  return [...(rootless ? buildEnterArgs(network.pid, rootless) : []), 'unshare', '--net', '--']
}

function toNamespaceProcess(child: ChildProcess, input: Writable, output: Readable): NamespaceProcess {
  const pid = child.pid ?? -1
  const closed = once(child, 'close')
  const marker = `\u0001${randomUUID()} `
  let lastRun: Promise<unknown> = Promise.resolve()
  input.on('error', () => {}) // the shell has exited; pending scripts are rejected
  output.setEncoding('utf8')

  const runScript = (script: string, onText: (text: string) => void): Promise<ScriptResult> => {
    input.write(`{ ${script}\n} 2>&1 < /dev/null; printf '%s%s\\n' ${quote(marker)} "$?"\n`)
    return readScriptResult(output, { marker, onText, closed })
  }
  const run: NamespaceProcess['run'] = (script, onText = () => {}) => {
    const result = lastRun.then(() => runScript(script, onText))
    lastRun = result.catch(() => {})
    return result
  }

  return {
    pid,
    root: `/proc/${pid}/root`,
    run,
    async runOrThrow(step, script) {
      const { code, text } = await withDeadline(run(script), SCRIPT_TIMEOUT_MS, () => {
        child.kill('SIGKILL')
        return `${step} did not end in time.`
      })
      if (code === 0) return text
      throw new SandboxUnavailable(`${step} failed: ${text.trim() || `code ${code}`}`)
    },
    async end() {
      input.end()
      const timer = setTimeout(() => void child.kill('SIGKILL'), END_TIMEOUT_MS)
      await withDeadline(
        closed,
        END_TIMEOUT_MS + KILL_TIMEOUT_MS,
        () => `Process ${pid} was killed but has not ended.`,
      ).finally(() => clearTimeout(timer))
    },
    hasExited: () => child.exitCode !== null || child.signalCode !== null,
    setReferenced(isReferenced) {
      for (const handle of [child, input, output]) {
        if (!(handle instanceof Socket || handle === child)) continue
        if (isReferenced) handle.ref()
        else handle.unref()
      }
    },
    kill: () => void child.kill('SIGKILL'),
  }
}

/** Timeout of scripts, which may copy all files of a sandbox. */
const SCRIPT_TIMEOUT_MS = 15 * 60_000
const END_TIMEOUT_MS = 30_000
const KILL_TIMEOUT_MS = 30_000

/** Maximum length of the output of a script, which may be untrusted. */
const OUTPUT_LENGTH_MAX = 1024 * 1024

type PendingScript = { marker: string; onText: (text: string) => void; closed: Promise<unknown> }

function readScriptResult(output: Readable, { marker, onText, closed }: PendingScript): Promise<ScriptResult> {
  let text = ''
  return new Promise((resolve, reject) => {
    const stop = (): void => void output.off('data', onData)
    const onData = (chunk: string): void => {
      text += chunk
      const at = text.indexOf(marker)
      const end = at === -1 ? -1 : text.indexOf('\n', at)
      if (end === -1) {
        onText(text)
        text = text.length > OUTPUT_LENGTH_MAX ? text.slice(-OUTPUT_LENGTH_MAX / 2) : text
        return
      }
      stop()
      resolve({ code: Number(text.slice(at + marker.length, end)), text: text.slice(0, at) })
    }
    output.on('data', onData)
    closed.then(() => {
      stop()
      reject(new SandboxUnavailable(`The namespace process of a sandbox has ended. ${text}`.trim()))
    }, reject)
  })
}

/** Flag of a descriptor that child processes do not inherit (O_CLOEXEC). */
const CLOSED_ON_EXEC = 0o2000000
const LAST_STANDARD_FD = 2
let hidingStdio: Promise<(number | 'ignore')[]> | undefined

/**
 * Returns `stdio` entries from the fourth on that hide inherited descriptors from child processes, including sandboxes.
 * Node cannot close them, but it can replace them with nothing.
 */
function loadHidingStdio(): Promise<(number | 'ignore')[]> {
  hidingStdio ??= buildHidingStdio()
  return hidingStdio
}

async function buildHidingStdio(): Promise<(number | 'ignore')[]> {
  const numbers = (await readdir('/proc/self/fd')).map(Number)
  const areInherited = await Promise.all(numbers.map(isInherited))
  const inherited = numbers.filter((_, index) => areInherited[index])
  const last = Math.max(LAST_STANDARD_FD, ...inherited)
  if (last === LAST_STANDARD_FD) return []
  const empty = await promisify(openDescriptor)('/dev/null', 'r', 0)
  const others = Array.from({ length: last - LAST_STANDARD_FD }, (_, index) => LAST_STANDARD_FD + 1 + index)
  return others.map((number) => (inherited.includes(number) ? empty : 'ignore'))
}

async function isInherited(number: number): Promise<boolean> {
  const info = await readFile(`/proc/self/fdinfo/${number}`, 'utf8').catch(() => '')
  const flags = /^flags:\s+(\d+)/m.exec(info)?.[1]
  return flags !== undefined && (Number.parseInt(flags, 8) & CLOSED_ON_EXEC) === 0
}

/** Waits for a result until the timeout, then throws SandboxUnavailable with the message that `onTimeout` returns. */
export async function withDeadline<T>(work: Promise<T>, timeoutMs: number, onTimeout: () => string): Promise<T> {
  const timeout = Promise.withResolvers<never>()
  const timer = setTimeout(() => timeout.reject(new SandboxUnavailable(onTimeout())), timeoutMs)
  try {
    return await Promise.race([work, timeout.promise])
  } finally {
    clearTimeout(timer)
  }
}
