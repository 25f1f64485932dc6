import { constants, open as openDescriptor } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Holder } from '../kernel/holder.ts'
import { killLine, OPENING, type Request, requestLine, requestScript } from './control-script.ts'
import { line } from './shell.ts'

/**
 * The other end of the control shell: it is told through a pipe what to start, and says through another how that ended.
 * Whoever is root in the sandbox can write there too, so all that is believed is a number.
 */
export type Control = {
  folder: string
  /** Of commands that were started, from 1. */
  next(): number
  /** Has a command started. */
  tell(request: Request): Promise<void>
  /** It has its files open. */
  started(number: number): Promise<unknown>
  /** Its code, when it ends before the sandbox. */
  code(number: number): Promise<number>
  /** With its process group. */
  kill(number: number): void
  close(): void
}

export const controlFolder = (sandboxFolder: string): string => join(sandboxFolder, 'control')

export async function openControl(sandboxFolder: string, holder: Holder): Promise<Control> {
  const folder = controlFolder(sandboxFolder)
  await mkdir(folder, { mode: 0o700 })
  const [requests = '', status = ''] = ['requests', 'status'].map((name) => join(folder, name))
  await holder.must('Making the pipes of a sandbox', line('mkfifo', '-m', '600', requests, status))
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
    async tell(request) {
      const { number } = request
      const file = join(folder, String(number))
      await writeFile(file, requestScript(request), { mode: 0o600 })
      void told.code(number)
      // It may hold secrets, and has been read when there is a process.
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

/** For both directions, so that it has an end of ours as long as the sandbox lives. */
async function openPipe(path: string): Promise<Socket> {
  const fd = await promisify(openDescriptor)(path, constants.O_RDWR | constants.O_NONBLOCK, 0)
  const socket = new Socket({ fd, readable: path.endsWith('status'), writable: !path.endsWith('status') })
  socket.on('error', () => {}) // the sandbox is gone
  return socket
}

type Told = { pid(number: number): Promise<number>; code(number: number): Promise<number> }

function listen(input: Socket): Told {
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

/** Whoever floods it costs no memory: only the end of what came is kept. */
function eachLine(input: Socket, onLine: (text: string) => void): void {
  let rest = ''
  input.setEncoding('latin1').on('data', (chunk) => {
    const lines = `${rest}${chunk}`.split('\n')
    rest = (lines.pop() ?? '').slice(-LINE_MAX)
    lines.forEach(onLine)
  })
}
