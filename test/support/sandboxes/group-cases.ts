import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, vi } from 'vitest'
import type { Sandbox, SandboxNetwork } from '../../../src/sandboxes/sandbox.ts'
import type { CaseContext, CaseSpec } from './case-context.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { listen, ownAddresses, probes } from './probes.ts'

/** Sends one line to each client. */
const serve = (port: number, text: string): string =>
  `exec perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(LocalPort => ${port}, Listen => 9, ReuseAddr => 1) or die $@; print "up\n"; $| = 1; while ($c = $s->accept) { print $c "${text}\n"; close $c }'`

/** Prints the answer, or `silent`. The first answer may take as long as the server takes to start. */
const ask = (host: string, port: number): string =>
  `(for i in $(seq 60); do timeout 2 bash -c 'cat < /dev/tcp/${host}/${port}' 2> /dev/null && exit; sleep 0.05; done; echo silent)`

const tryOnce = (host: string, port: number): string =>
  `(timeout 2 bash -c 'cat < /dev/tcp/${host}/${port}' 2> /dev/null || echo silent)`

const as = (group: SandboxNetwork, ...names: string[]): CaseSpec => ({ network: { sandboxNetwork: group, names } })

/** A server whose address the test knows. */
async function startServer(
  fixture: CaseContext,
  group: SandboxNetwork,
  name: string,
): Promise<{ sandbox: Sandbox; address: string }> {
  const outputFile = join(await fixture.folder(), 'server.out')
  const sandbox = await fixture.start(`getent hosts ${name}; ${serve(7000, name)}`, { ...as(group, name), outputFile })
  const said = async (): Promise<string> => readFile(outputFile, 'utf8')
  await vi.waitFor(async () => expect(await said()).toMatch(/^\S+ .*\n/), { timeout: 10_000, interval: 20 })
  const [address = ''] = (await said()).split(/\s/)
  const { output } = await fixture.run(ask(name, 7000), as(group, 'looking'))
  expect(output).toBe(`${name}\n`)
  return { sandbox, address }
}

export const groupCases: ConformanceCase[] = [
  {
    name: 'network: members reach each other by all names, in any start order, on any port',
    run: async (fixture) => {
      const group = await fixture.openNetwork()
      const [first] = await Promise.all([
        fixture.run(`${ask('db', 80)}; ${ask('database', 80)}; hostname`, as(group, 'main', 'app')),
        fixture.start(serve(80, 'from db'), as(group, 'db', 'database')),
        fixture.start(serve(81, 'from other'), as(group, 'other')),
      ])
      expect(first.output).toBe('from db\nfrom db\nmain\n')
      const later = await fixture.run(
        `${ask('db', 80)}; ${ask('other', 81)}; ${tryOnce('localhost', 80)}`,
        as(group, 'late'),
      )
      expect(later.output).toBe('from db\nfrom other\nsilent\n')
    },
  },
  {
    name: 'network: an ordinary user in a member may listen below port 1024',
    run: async (fixture) => {
      const group = await fixture.openNetwork()
      await fixture.start(serve(80, 'web'), { ...as(group, 'web'), user: 'nobody' })
      expect((await fixture.run(ask('web', 80), as(group, 'main'))).output).toBe('web\n')
    },
  },
  {
    name: 'network: a name resolves to its current owner',
    run: async (fixture) => {
      const group = await fixture.openNetwork()
      const first = await fixture.start(serve(80, 'first'), as(group, 'main'))
      expect((await fixture.run(ask('main', 80), as(group, 'side'))).output).toBe('first\n')
      await first.kill()
      await first.exited
      await fixture.start(serve(80, 'second'), as(group, 'main'))
      expect((await fixture.run(ask('main', 80), as(group, 'side'))).output).toBe('second\n')
    },
  },
  {
    name: 'network: other sandboxes and other networks find no members',
    run: async (fixture) => {
      const { address } = await startServer(fixture, await fixture.openNetwork(), 'db')
      const look = `${tryOnce('db', 7000)}; ${tryOnce(address, 7000)}; getent hosts db || echo unknown`
      const alone = await fixture.run(look)
      expect(alone.output).toBe('silent\nsilent\nunknown\n')
      const other = await fixture.run(look, as(await fixture.openNetwork(), 'main', 'side'))
      expect(other.output).toBe('silent\nsilent\nunknown\n')
    },
  },
  {
    name: 'network: this machine does not reach the members',
    run: async (fixture) => {
      const { address } = await startServer(fixture, await fixture.openNetwork(), 'db')
      // Something else may answer there, and it may take any time.
      const socket = connect({ host: address, port: 7000 })
      const clock = setTimeout(() => socket.destroy(), 2000)
      const heard = await text(socket).catch(() => '')
      clearTimeout(clock)
      expect(heard).not.toContain('db')
    },
  },
  {
    name: 'network: members reach neither this machine, nor the internet, nor a name server',
    run: async (fixture) => {
      await using server = await listen()
      const group = await fixture.openNetwork()
      const own = ['127.0.0.1', ...ownAddresses()].map((address) => `${address}/${server.port}`)
      const others = ['1.1.1.1/53', '8.8.8.8/443', '169.254.169.254/80', 'deb.debian.org/80', 'host.docker.internal/80']
      // Address that a bridge of this machine would have.
      const gates = `me=$(getent hosts main | cut -d' ' -f1); for gate in \${me%.*}.1 \${me%.*.*}.0.1; do if timeout 2 bash -c "exec 3<>/dev/tcp/$gate/${server.port}" 2> /dev/null; then echo $gate; fi; done`
      const dns = `perl -MSocket -e 'for (qw(1.1.1.1 8.8.8.8 127.0.0.11)) { socket(S, AF_INET, SOCK_DGRAM, 0); my $q = pack("n6", 1, 256, 1, 0, 0, 0) . "\\3deb\\6debian\\3org\\0" . pack("n2", 1, 1); next unless send(S, $q, 0, sockaddr_in(53, inet_aton($_))); vec($r = "", fileno(S), 1) = 1; if (select($r, undef, undef, 1) > 0 && recv(S, $a, 512, 0)) { my ($n) = unpack("x6n", $a); print "resolved by $_\n" if $n } }'`
      const script = `${probes([...own, ...others])}\n${gates}\n${dns}\ngetent hosts deb.debian.org\ntrue`
      expect((await fixture.run(script, as(group, 'main'))).output).toBe('')
    },
  },
  {
    name: 'network: a volume starts with the files of the image and is shared',
    run: async (fixture) => {
      const group = await fixture.openNetwork()
      const volume = (target: string, readOnly = false) => ({ kind: 'volume' as const, name: 'data', target, readOnly })
      const first = await fixture.run('ls /etc/apt; stat -c %a /etc/apt; echo 1 > /etc/apt/new', {
        ...as(group, 'one'),
        mounts: [volume('/etc/apt')],
      })
      expect(first.output).toContain('apt.conf.d\n')
      expect(first.output).toMatch(/755\n$/)
      const script = 'cat /data/new; ls -d /data/apt.conf.d; touch /data/more 2> /dev/null || echo kept'
      const second = await fixture.run(script, { ...as(group, 'two'), mounts: [volume('/data', true)] })
      expect(second.output).toBe('1\n/data/apt.conf.d\nkept\n')
      // The volume is separate, and empty where the image has nothing.
      const other = await fixture.run('ls -A /data', {
        ...as(await fixture.openNetwork(), 'one'),
        mounts: [volume('/data')],
      })
      expect(other.output).toBe('')
    },
  },
  {
    name: 'network: a workspace base leaves the files of volumes alone',
    run: async (fixture) => {
      const group = await fixture.openNetwork()
      const mounts = [{ kind: 'volume' as const, name: 'data', target: '/app/data', readOnly: false }]
      const member = { ...as(group, 'main'), mounts }
      const { sandbox } = await fixture.run('echo 1 > /app/file; echo 2 > /app/data/file', member)
      for (const path of ['/app', '/app/data']) {
        const baseFilesystem = { kind: 'workspace' as const, from: sandbox.stopped, paths: [path] }
        const { output } = await fixture.run('cat /app/file; cat /app/data/file', { ...member, baseFilesystem })
        expect(output).toContain('2\n')
        expect(output.includes('1\n')).toBe(path === '/app')
      }
    },
  },
  {
    name: 'network: ports of a member work for this member only',
    run: async (fixture) => {
      const group = await fixture.openNetwork()
      const ports = [{ port: 18080, onConnection: (socket: Socket) => void socket.end('of the machine\n') }]
      const outputFile = join(await fixture.folder(), 'out')
      const member = await fixture.start(`${ask('127.0.0.1', 18080)}; sleep 30`, {
        ...as(group, 'main'),
        ports,
        outputFile,
      })
      const said = async (): Promise<string> => readFile(outputFile, 'utf8')
      await vi.waitFor(async () => expect(await said()).toBe('of the machine\n'), { timeout: 10_000 })
      const other = await fixture.run(`${tryOnce('main', 18080)}; ${tryOnce('127.0.0.1', 18080)}`, as(group, 'side'))
      expect(other.output).toBe('silent\nsilent\n')
      await member.kill()
    },
  },
  {
    name: 'network: added commands of a member reach the others',
    run: async (fixture) => {
      const group = await fixture.openNetwork()
      await fixture.start(serve(80, 'from db'), as(group, 'db'))
      const main = await fixture.start(null, { ...as(group, 'main'), usesExec: true })
      const outputFile = join(await fixture.folder(), 'out')
      await main.exec({
        command: ['sh', '-c', ask('db', 80)],
        user: null,
        workdir: null,
        env: {},
        input: '',
        outputFile,
        limits: { outputBytes: 1000, seconds: 20 },
      })
      expect(await readFile(outputFile, 'utf8')).toBe('from db\n')
    },
  },
  {
    name: 'network: a sandbox can start from the files of an earlier member',
    run: async (fixture) => {
      const group = await fixture.openNetwork()
      const { sandbox } = await fixture.run('mkdir /app; echo 1 > /app/file', as(group, 'main'))
      const baseFilesystem = { kind: 'workspace' as const, from: sandbox.stopped, paths: ['/app'] }
      expect((await fixture.run('cat /app/file', { ...as(group, 'main'), baseFilesystem })).output).toBe('1\n')
    },
  },
  {
    name: 'network: remove leaves nothing and is idempotent',
    run: async (fixture) => {
      const id = `gone-${randomUUID()}`
      const group = await fixture.subject.provider.openNetwork(id)
      const mounts = [{ kind: 'volume' as const, name: 'data', target: '/data', readOnly: false }]
      const sandbox = await fixture.start('touch /data/file; sleep 600', {
        ...as(group, 'main'),
        mounts,
        id: `${id}-main`,
      })
      expect(await fixture.subject.leftovers(id)).not.toEqual([])
      await sandbox.remove()
      await group.remove()
      await group.remove()
      expect(await fixture.subject.leftovers(id)).toEqual([])
    },
  },
]
