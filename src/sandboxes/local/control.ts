import { constants, open as openDescriptor } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { UserAccount } from '../kernel/accounts.ts'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import { quote, renderCommand } from '../kernel/shell.ts'
import { SandboxUnsupported } from '../sandbox.ts'
import { buildCommandArgs, CONTROL } from './launcher.ts'
import type { LocalLauncher } from './machine.ts'

/**
 * Client of the control shell, which starts commands in a sandbox and reports how they ended over pipes. Root in the
 * sandbox can write to them too, so only a number is accepted.
 */
export type ControlShell = {
  folder: string
  /** Returns the number of the next command, from 1. */
  next(): number
  startCommand(request: ControlRequest): Promise<void>
  /** Resolves when the command has opened its files. */
  started(number: number): Promise<unknown>
  /** Resolves to the exit code when the command ends before the sandbox. */
  code(number: number): Promise<number>
  /** Kills the process group of a command. */
  kill(number: number): void
  close(): void
}

export const controlFolder = (sandboxFolder: string): string => join(sandboxFolder, 'control')

export async function openControl(sandboxFolder: string, namespaceProcess: NamespaceProcess): Promise<ControlShell> {
  const folder = controlFolder(sandboxFolder)
  await mkdir(folder, { mode: 0o700 })
  const [requests = '', status = ''] = ['requests', 'status'].map((name) => join(folder, name))
  await namespaceProcess.runOrThrow(
    'Making the pipes of a sandbox',
    renderCommand('mkfifo', '-m', '600', requests, status),
  )
  const output = await openPipe(requests, 'write')
  const input = await openPipe(status, 'read')
  const reports = readReports(input)
  let last = 0
  output.write(SAVE_STREAMS)
  return {
    folder,
    next: () => {
      last += 1
      return last
    },
    started: reports.pid,
    code: reports.code,
    async startCommand(request) {
      const { number } = request
      const file = join(folder, String(number))
      await writeFile(file, buildRequestScript(request), { mode: 0o600 })
      void reports.code(number)
      // The file may hold secrets; it has been read once the process exists.
      void reports.pid(number).then(() => rm(file, { force: true }))
      // The shell reads the command from the file, because only short lines are written to a pipe atomically.
      output.write(`. ${join(CONTROL, String(number))}\n`)
    },
    kill(number) {
      void reports.pid(number).then((pid) => output.write(`kill -9 -${pid} ${pid}\n`))
    },
    close() {
      output.destroy()
      input.destroy()
    },
  }
}

/** Opens a pipe. Its descriptor can read and write, so that the pipe stays open until the sandbox ends. */
async function openPipe(path: string, use: 'read' | 'write'): Promise<Socket> {
  const fd = await promisify(openDescriptor)(path, constants.O_RDWR | constants.O_NONBLOCK, 0)
  const socket = new Socket({ fd, readable: use === 'read', writable: use === 'write' })
  socket.on('error', () => {}) // the sandbox has ended
  return socket
}

type ControlReports = { pid(number: number): Promise<number>; code(number: number): Promise<number> }

function readReports(input: Socket): ControlReports {
  const waiting = new Map<string, PromiseWithResolvers<number>>()
  const find = (key: string): PromiseWithResolvers<number> => {
    const found = waiting.get(key) ?? Promise.withResolvers<number>()
    waiting.set(key, found)
    return found
  }
  eachLine(input, (text) => {
    const [, number = '', event = '', value = ''] = /^(\d{1,9}) (pid|exit) (\d{1,9})$/.exec(text) ?? []
    const isValid = event === 'exit' ? Number(value) <= 255 : Number(value) > 1
    if (isValid) waiting.get(`${number} ${event}`)?.resolve(Number(value))
  })
  return { pid: (number) => find(`${number} pid`).promise, code: (number) => find(`${number} exit`).promise }
}

/** Maximum length of a line. All lines of the control shell are shorter. */
const LINE_LENGTH_MAX = 100

/** Calls `onLine` for each line. Only the end of a long line is buffered, so that a flood uses no memory. */
function eachLine(input: Socket, onLine: (text: string) => void): void {
  let rest = ''
  input.setEncoding('latin1').on('data', (chunk) => {
    const lines = `${rest}${chunk}`.split('\n')
    rest = (lines.pop() ?? '').slice(-LINE_LENGTH_MAX)
    lines.forEach(onLine)
  })
}

/** A command for the control shell to start. */
type ControlRequest = {
  /** Number of the command. 0 is the main command, which uses the input and output of the sandbox. */
  number: number
  launcher: LocalLauncher
  account: UserAccount
  workdir: string
  env: Record<string, string>
  command: string[]
  hasInput: boolean
}

const REQUESTS = join(CONTROL, 'requests')
const STATUS = join(CONTROL, 'status')

/** Saves the standard streams for the main command, because a shell gives background commands no input. */
const SAVE_STREAMS = 'exec 4<&0 5>&1 6>&2 < /dev/null > /dev/null 2>&1\n'

/** Builds the shell code that runs a command and reports its process id and exit code. The main command ends all others. */
function buildRequestScript({ number, launcher, account, workdir, env, command, hasInput }: ControlRequest): string {
  const input = hasInput ? join(CONTROL, `${number}.input`) : '/dev/null'
  const files = number === 0 ? '3<&4 >&5 2>&6' : `3< ${input} > ${join(CONTROL, `${number}.output`)} 2>&1`
  const reportExit = number === 0 ? `echo "exit $?" > ${REQUESTS}` : `echo "${number} exit $?" > ${STATUS}`
  return `{ exec ${files} 4<&- 5>&- 6>&-
( exec <&3 3<&-
${renderCommand('cd', '--', workdir)} || exit 126
${Object.entries(env).map(buildExport).join('')}exec ${renderCommand(...buildCommandArgs(launcher, account), ...command)}
) & child=$!
exec 3<&- > /dev/null 2>&1
echo "${number} pid $child" > ${STATUS}
wait $child
${reportExit}; } &
`
}

function buildExport([name, value]: [string, string]): string {
  if (/^[A-Za-z_]\w*$/.test(name)) return `export ${name}=${quote(value)}\n`
  throw new SandboxUnsupported(`The provider local cannot set the variable ${name} for exec. Use docker.`)
}
