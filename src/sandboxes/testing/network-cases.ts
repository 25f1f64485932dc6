import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { expect } from 'vitest'
import type { Case } from './case.ts'

/** Prints the addresses that answered. */
const probes = (targets: string[]): string =>
  targets
    .map((target) => `if timeout 2 bash -c 'exec 3<>/dev/tcp/${target}' 2> /dev/null; then echo '${target}'; fi`)
    .join('\n')

async function listen(): Promise<{ port: number } & AsyncDisposable> {
  const server = createServer((socket) => socket.end('of the machine'))
  server.listen(0, '0.0.0.0')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The test server has no port.')
  return { port: address.port, [Symbol.asyncDispose]: async () => void server.close() }
}

const ownAddresses = (): string[] =>
  Object.values(networkInterfaces())
    .flatMap((found) => found ?? [])
    .filter(({ family }) => family === 'IPv4')
    .map(({ address }) => address)

export const networkCases: Case[] = [
  {
    name: 'without a network nothing answers: not this machine, not its addresses, no name server, no metadata',
    run: async (bench) => {
      await using server = await listen()
      const own = ['127.0.0.1', ...ownAddresses()].map((address) => `${address}/${server.port}`)
      const others = ['1.1.1.1/53', '8.8.8.8/443', '169.254.169.254/80', '::1/80', 'deb.debian.org/80', 'localhost/80']
      const { output } = await bench.run(
        `${probes([...own, ...others])}\nls /sys/class/net 2> /dev/null; cut -d: -f1 -s /proc/net/dev`,
      )
      expect(output.split(/\s+/).filter((word) => word !== '' && word !== 'lo')).toEqual([])
    },
  },
  {
    name: 'the gateway answers on its port before the command starts, and nothing else does',
    run: async (bench) => {
      await using server = await listen()
      const onConnection = (socket: Socket): void => {
        socket.on('data', (data) => socket.end(`heard ${data}`))
        socket.on('error', () => socket.destroy())
      }
      const targets = [
        `127.0.0.1/${server.port}`,
        '127.0.0.1/18081',
        ...ownAddresses().map((a) => `${a}/${server.port}`),
      ]
      const { output, exit } = await bench.run(
        `bash -c 'exec 3<>/dev/tcp/127.0.0.1/18080; echo hello >&3; cat <&3'\n${probes(targets.filter((t) => !t.startsWith('127.0.0.1/18080')))}\ntrue`,
        { gateway: { port: 18080, onConnection }, user: 0 },
      )
      expect(output).toBe('heard hello\n')
      expect(exit.code).toBe(0)
    },
  },
  {
    name: 'two gateways on one port are two gateways',
    run: async (bench) => {
      const ask = `bash -c 'exec 3<>/dev/tcp/127.0.0.1/18080; cat <&3'`
      const answer = (text: string) => ({ port: 18080, onConnection: (socket: Socket) => void socket.end(text) })
      const both = await Promise.all(['one', 'two'].map((text) => bench.run(ask, { gateway: answer(text) })))
      expect(both.map(({ output }) => output)).toEqual(['one', 'two'])
    },
  },
]
