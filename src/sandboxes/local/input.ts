import { constants, open as openDescriptor } from 'node:fs'
import { Socket } from 'node:net'
import { promisify } from 'node:util'

export type Input = { send(): void; close(): void }

/**
 * Feeds content through a named pipe. A sandbox could reopen a regular file as standard input and write to it beyond
 * its disk limit. Content is sent once the sandbox has opened the pipe, because earlier writes would be lost.
 */
export async function openInput(pipe: string, content: string | Buffer): Promise<Input> {
  if (content.length === 0) return { send: () => {}, close: () => {} }
  const fd = await promisify(openDescriptor)(pipe, constants.O_RDWR | constants.O_NONBLOCK, 0)
  const socket = new Socket({ fd, readable: false, writable: true })
  socket.on('error', () => {}) // the command did not read all of its input
  return { send: () => void socket.end(content), close: () => void socket.destroy() }
}
