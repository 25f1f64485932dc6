import { once } from 'node:events'
import { chmod } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import type { Port } from '../sandbox.ts'

/** Listens on a socket in a folder, to which a relay carries the connections of a sandbox's port. */
export async function listenForPort(folder: string, { port, onConnection }: Port): Promise<Server> {
  const path = join(folder, String(port))
  const server = createServer({ allowHalfOpen: false }, onConnection).listen(path)
  await once(server, 'listening')
  // The folder is private to this process; in the container of a relay it may belong to another user.
  await chmod(path, 0o666)
  return server
}
