import { constants, open as openDescriptor } from 'node:fs'
import { Socket } from 'node:net'
import { promisify } from 'node:util'

export type Input = { send(): void; close(): void }

/**
 * Feeds content through a named pipe. A file would do, but a sandbox can open its standard input anew and write to it,
 * past the limit of its disk. Sent when the sandbox has the pipe open: what nobody has open is lost.
 */
export async function openInput(pipe: string, content: string | Buffer): Promise<Input> {
  if (content.length === 0) return { send: () => {}, close: () => {} }
  const fd = await promisify(openDescriptor)(pipe, constants.O_RDWR | constants.O_NONBLOCK, 0)
  const socket = new Socket({ fd, readable: false, writable: true })
  socket.on('error', () => {}) // it did not want to hear all of it
  return { send: () => void socket.end(content), close: () => void socket.destroy() }
}
