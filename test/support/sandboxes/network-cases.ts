import { writeFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { ConformanceCase } from './conformance-case.ts'
import { listen, ownAddresses, probes } from './probes.ts'
import { openTrap } from './trap.ts'

export const networkCases: ConformanceCase[] = [
  {
    name: 'without a network nothing is reachable: this machine, name servers, metadata services',
    run: async (fixture) => {
      await using server = await listen()
      const own = ['127.0.0.1', ...ownAddresses()].map((address) => `${address}/${server.port}`)
      const others = ['1.1.1.1/53', '8.8.8.8/443', '169.254.169.254/80', '::1/80', 'deb.debian.org/80', 'localhost/80']
      const { output } = await fixture.run(
        `${probes([...own, ...others])}\nls /sys/class/net 2> /dev/null; cut -d: -f1 -s /proc/net/dev`,
      )
      expect(output.split(/\s+/).filter((word) => word !== '' && word !== 'lo')).toEqual([])
    },
  },
  {
    name: 'a build reaches its proxy, but nothing of this machine or its networks, directly or through the proxy',
    run: async (fixture) => {
      await using trap = await openTrap()
      const context = await fixture.folder()
      for (const [path, text] of Object.entries(trap.files('debian:bookworm-slim'))) {
        await writeFile(join(context, path), text)
      }
      const image = await fixture.subject.provider.prepare(
        { kind: 'dockerfile', context, dockerfile: 'Dockerfile', target: null, args: {} },
        { signal: new AbortController().signal, timeoutSec: 50, onLog: () => {} },
      )
      expect((await fixture.run('cat /reached', { image })).output).toBe('')
      expect(trap.seen).toEqual([])
    },
  },
  {
    name: 'a port answers before the command starts, and no other port does',
    run: async (fixture) => {
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
      const { output, exit } = await fixture.run(
        `bash -c 'exec 3<>/dev/tcp/127.0.0.1/18080; echo hello >&3; cat <&3'\n${probes(targets.filter((t) => !t.startsWith('127.0.0.1/18080')))}\ntrue`,
        { ports: [{ port: 18080, onConnection }], user: 0 },
      )
      expect(output).toBe('heard hello\n')
      expect(exit.code).toBe(0)
    },
  },
  {
    name: 'the same port of two sandboxes is separate',
    run: async (fixture) => {
      const ask = `bash -c 'exec 3<>/dev/tcp/127.0.0.1/18080; cat <&3'`
      const answer = (text: string) => ({ port: 18080, onConnection: (socket: Socket) => void socket.end(text) })
      const both = await Promise.all(['one', 'two'].map((text) => fixture.run(ask, { ports: [answer(text)] })))
      expect(both.map(({ output }) => output)).toEqual(['one', 'two'])
    },
  },
  {
    name: 'each of several ports has its own handler',
    run: async (fixture) => {
      const ports = [18080, 18081, 5432].map((port) => ({
        port,
        onConnection: (socket: Socket) => void socket.end(`${port}\n`),
      }))
      const ask = "for p in 18081 5432 18080; do bash -c 'exec 3<>/dev/tcp/127.0.0.1/'$p'; cat <&3'; done"
      expect((await fixture.run(ask, { ports })).output).toBe('18081\n5432\n18080\n')
    },
  },
]
