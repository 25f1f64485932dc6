import { once } from 'node:events'
import { createServer } from 'node:net'
import { networkInterfaces } from 'node:os'

/** Prints the addresses that answered. */
export const probes = (targets: string[]): string =>
  targets
    .map((target) => `if timeout 2 bash -c 'exec 3<>/dev/tcp/${target}' 2> /dev/null; then echo '${target}'; fi`)
    .join('\n')

/** Probes every address of this machine. */
export async function listen(): Promise<{ port: number } & AsyncDisposable> {
  const server = createServer((socket) => socket.end('of the machine'))
  server.listen(0, '0.0.0.0')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The test server has no port.')
  return { port: address.port, [Symbol.asyncDispose]: async () => void server.close() }
}

export const ownAddresses = (): string[] =>
  Object.values(networkInterfaces())
    .flatMap((found) => found ?? [])
    .filter(({ family }) => family === 'IPv4')
    .map(({ address }) => address)
