import { constants, open as openDescriptor } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import { type ControlRequest, killLine, OPENING, requestLine, requestScript } from './control-script.ts'
import { line } from './shell.ts'

/**
 * Client of the control shell, which starts commands in a sandbox and reports how they ended over pipes. Root in the
 * sandbox can write to them too, so only a number is accepted.
 */
export type ControlShell = {
  folder: string
  /** Returns the number of the next command, from 1. */
  next(): number
  /** Has a command started. */
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

export async function openControl(sandboxFolder: string, holder: NamespaceProcess): Promise<ControlShell> {
  const folder = controlFolder(sandboxFolder)
  await mkdir(folder, { mode: 0o700 })
  const [requests = '', status = ''] = ['requests', 'status'].map((name) => join(folder, name))
  await holder.runOrThrow('Making the pipes of a sandbox', line('mkfifo', '-m', '600', requests, status))
  const output = await openPipe(requests)
  const input = await openPipe(status)
  const told = listen(input)
  let last = 0
  output.write(OPENING)
  return {
    folder,
    next: () => {
      last += 1
      return last
    },
    started: told.pid,
    code: told.code,
    async startCommand(request) {
      const { number } = request
      const file = join(folder, String(number))
      await writeFile(file, requestScript(request), { mode: 0o600 })
      void told.code(number)
      // The file may hold secrets; it has been read once the process exists.
      void told.pid(number).then(() => rm(file, { force: true }))
      output.write(requestLine(number))
    },
    kill(number) {
      void told.pid(number).then((pid) => output.write(killLine(pid)))
    },
    close() {
      output.destroy()
      input.destroy()
    },
  }
}

/** Opened for reading and writing, so that the pipe stays open as long as the sandbox lives. */
async function openPipe(path: string): Promise<Socket> {
  const fd = await promisify(openDescriptor)(path, constants.O_RDWR | constants.O_NONBLOCK, 0)
  const socket = new Socket({ fd, readable: path.endsWith('status'), writable: !path.endsWith('status') })
  socket.on('error', () => {}) // the sandbox has ended
  return socket
}

type ControlReports = { pid(number: number): Promise<number>; code(number: number): Promise<number> }

function listen(input: Socket): ControlReports {
  const waiting = new Map<string, PromiseWithResolvers<number>>()
  const find = (key: string): PromiseWithResolvers<number> => {
    const found = waiting.get(key) ?? Promise.withResolvers<number>()
    waiting.set(key, found)
    return found
  }
  eachLine(input, (text) => {
    const [, number = '', what = '', value = ''] = /^(\d{1,9}) (pid|exit) (\d{1,9})$/.exec(text) ?? []
    const usable = what === 'exit' ? Number(value) <= 255 : Number(value) > 1
    if (usable) waiting.get(`${number} ${what}`)?.resolve(Number(value))
  })
  return { pid: (number) => find(`${number} pid`).promise, code: (number) => find(`${number} exit`).promise }
}

/** Longer than anything that the control shell says. */
const LINE_MAX = 100

/** Only the last part is buffered, so that a flood uses no memory. */
function eachLine(input: Socket, onLine: (text: string) => void): void {
  let rest = ''
  input.setEncoding('latin1').on('data', (chunk) => {
    const lines = `${rest}${chunk}`.split('\n')
    rest = (lines.pop() ?? '').slice(-LINE_MAX)
    lines.forEach(onLine)
  })
}
