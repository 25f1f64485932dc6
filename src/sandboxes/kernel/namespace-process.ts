import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { open as openDescriptor } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { Socket } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import { promisify } from 'node:util'
import { SandboxUnavailable } from '../sandbox.ts'

type ScriptResult = { code: number; text: string }

/**
 * A shell in its own mount namespace. All mounts of a sandbox are created there, so that the kernel removes them when the
 * shell ends. The shell ends with this process, because it reads its input from it.
 */
export type NamespaceProcess = {
  pid: number
  /** Path of its root for this process. */
  root: string
  /** Runs one script at a time. `text` is its output, shortened to the end if it is long. */
  run(script: string, onText?: (text: string) => void): Promise<ScriptResult>
  /** Like `run`, but throws SandboxUnavailable if the script fails. `what` names the step in the message. */
  runOrThrow(what: string, script: string): Promise<string>
  end(): Promise<void>
  hasExited(): boolean
  /** Sets whether this process stays alive as long as the namespace process does. */
  setReferenced(isAwaited: boolean): void
  /** Kills the process and the script that it runs. */
  kill(): void
}

/** Options of a namespace process. `beside`: copy the mounts of this process. */
export type NamespaceOptions = {
  rootless: boolean
  beside: NamespaceProcess | undefined
  cwd: string
  /** Creates a process namespace too, for a runtime whose sandboxes would outlive it. */
  ownProcesses?: boolean
  /** Creates a network namespace: an isolated one, or one that the given process can reach into. */
  network?: 'alone' | NamespaceProcess | undefined
}

export async function startNamespaceProcess(options: NamespaceOptions): Promise<NamespaceProcess> {
  const [program, ...args] = buildNamespaceCommand(options)
  const child = spawn(program, args, {
    cwd: options.cwd,
    env: { PATH: TOOLS_PATH },
    stdio: ['pipe', 'pipe', 'ignore', ...(await listInheritedDescriptors())],
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

export const TOOLS_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

function buildNamespaceCommand({
  rootless,
  beside,
  ownProcesses = false,
  network,
}: NamespaceOptions): [string, ...string[]] {
  const user = rootless && beside === undefined ? ['--user', '--map-root-user'] : []
  const net = network === 'alone' ? ['--net'] : []
  const mounts = ['unshare', ...user, ...net, '--mount', '--propagation', 'private']
  // If this process dies before the shell reads its first line, the end of its input ends it; later the signal does.
  const dieWithUs = ['setpriv', '--pdeathsig', 'KILL']
  const own = ownProcesses
    ? [...dieWithUs, ...mounts, '--pid', '--fork', '--kill-child=KILL', '--mount-proc', 'sh']
    : [...mounts, ...dieWithUs, 'sh']
  const joined = beside === undefined ? own : [...enter(beside.pid, rootless, '--mount'), ...own]
  const [program = '', ...args] = [...memberNetwork(network, rootless), ...joined]
  return [program, ...args]
}

/** Returns the command line prefix that enters the namespaces of a process. */
export const enter = (pid: number, rootless: boolean, ...namespaces: string[]): string[] => [
  ...['nsenter', '-t', String(pid), ...(rootless ? ['--user', '--preserve-credentials'] : []), ...namespaces, '--'],
]

/** Enters the user namespace of the sandbox network, because only its root user may connect the new network. */
function memberNetwork(network: NamespaceOptions['network'], rootless: boolean): string[] {
  if (network === undefined || network === 'alone') return []
  return [...(rootless ? enter(network.pid, rootless) : []), 'unshare', '--net', '--']
}

function toNamespaceProcess(child: ChildProcess, input: Writable, output: Readable): NamespaceProcess {
  const pid = child.pid ?? -1
  const closed = once(child, 'close')
  const mark = `\u0001${randomUUID()} `
  let busy: Promise<unknown> = Promise.resolve()
  input.on('error', () => {}) // the shell has exited; pending scripts are rejected
  output.setEncoding('utf8')

  const ask = (script: string, onText: (text: string) => void): Promise<ScriptResult> => {
    input.write(`{ ${script}\n} 2>&1 < /dev/null; printf '%s%s\\n' ${"'"}${mark}${"'"} "$?"\n`)
    return answerFrom(output, { mark, onText, closed })
  }
  const run: NamespaceProcess['run'] = (script, onText = () => {}) => {
    const answer = busy.then(() => ask(script, onText))
    busy = answer.catch(() => {})
    return answer
  }

  return {
    pid,
    root: `/proc/${pid}/root`,
    run,
    async runOrThrow(what, script) {
      const { code, text } = await withDeadline(run(script), MUST_MS, () => {
        child.kill('SIGKILL')
        return `${what} did not end in time.`
      })
      if (code === 0) return text
      throw new SandboxUnavailable(`${what} failed: ${text.trim() || `code ${code}`}`)
    },
    async end() {
      input.end()
      const clock = setTimeout(() => void child.kill('SIGKILL'), END_MS)
      await withDeadline(closed, END_MS + DEATH_MS, () => `Process ${pid} was killed but has not ended.`).finally(() =>
        clearTimeout(clock),
      )
    },
    hasExited: () => child.exitCode !== null || child.signalCode !== null,
    setReferenced(isAwaited) {
      for (const handle of [child, input, output]) {
        if (handle instanceof Socket || handle === child) isAwaited ? handle.ref() : handle.unref()
      }
    },
    kill: () => void child.kill('SIGKILL'),
  }
}

/** Timeout of scripts, which may copy all files of a sandbox. */
const MUST_MS = 15 * 60_000
const END_MS = 30_000
const DEATH_MS = 30_000

/** Maximum length of the output of a script, which may be untrusted. */
const TEXT_MAX = 1024 * 1024

type PendingScript = { mark: string; onText: (text: string) => void; closed: Promise<unknown> }

function answerFrom(output: Readable, { mark, onText, closed }: PendingScript): Promise<ScriptResult> {
  let text = ''
  return new Promise((resolve, reject) => {
    const stop = (): void => void output.off('data', hear)
    const hear = (chunk: string): void => {
      text += chunk
      const at = text.indexOf(mark)
      const end = at === -1 ? -1 : text.indexOf('\n', at)
      if (end === -1) {
        onText(text)
        text = text.length > TEXT_MAX ? text.slice(-TEXT_MAX / 2) : text
        return
      }
      stop()
      resolve({ code: Number(text.slice(at + mark.length, end)), text: text.slice(0, at) })
    }
    output.on('data', hear)
    closed.then(() => {
      stop()
      reject(new SandboxUnavailable(`The process that holds a sandbox has ended. ${text}`.trim()))
    }, reject)
  })
}

const CLOSED_ON_EXEC = 0o2000000
let strays: Promise<(number | 'ignore')[]> | undefined

/**
 * Returns `stdio` entries from the fourth on that hide inherited descriptors from child processes, including sandboxes.
 * Node cannot close them, but it can replace them with nothing.
 */
function listInheritedDescriptors(): Promise<(number | 'ignore')[]> {
  strays ??= findStrays()
  return strays
}

async function findStrays(): Promise<(number | 'ignore')[]> {
  const numbers = (await readdir('/proc/self/fd')).map(Number)
  const passed = await Promise.all(numbers.map(async (number) => ((await isPassedOn(number)) ? number : 0)))
  const last = Math.max(2, ...passed)
  if (last === 2) return []
  const nothing = await promisify(openDescriptor)('/dev/null', 'r', 0)
  return Array.from({ length: last - 2 }, (_, index) => (passed.includes(index + 3) ? nothing : 'ignore'))
}

async function isPassedOn(number: number): Promise<boolean> {
  const info = await readFile(`/proc/self/fdinfo/${number}`, 'utf8').catch(() => '')
  const flags = /^flags:\s+(\d+)/m.exec(info)?.[1]
  return flags !== undefined && (Number.parseInt(flags, 8) & CLOSED_ON_EXEC) === 0
}

/** Waits for a result until the deadline, then throws SandboxUnavailable with what `onLate` returns. */
export async function withDeadline<T>(work: Promise<T>, timeoutMs: number, onLate: () => string): Promise<T> {
  const late = Promise.withResolvers<never>()
  const clock = setTimeout(() => late.reject(new SandboxUnavailable(onLate())), timeoutMs)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(clock)
  }
}
