import { randomUUID } from 'node:crypto'
import { expect, vi } from 'vitest'
import { SandboxUnavailable } from '../../../src/sandboxes/sandbox.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { processesNaming } from './processes.ts'

/** Starts a process that leaves its process group and session and ignores signals. The mark is in its command line. */
const daemonScript = (mark: string): string =>
  `setsid sh -c ': ${mark}; trap "" TERM HUP INT; while :; do sleep 0.05; echo alive; done' &`

/** Waits until the process is visible, so that its later absence proves something. */
const waitForProcess = (mark: string): Promise<void> =>
  vi.waitFor(async () => expect(await processesNaming(mark)).not.toEqual([]), { timeout: 10_000, interval: 20 })

export const processCases: ConformanceCase[] = [
  {
    name: 'the exit code is that of the command',
    run: async (context) => {
      const codes = []
      for (const code of [0, 1, 42]) codes.push((await context.run(`exit ${code}`)).exit)
      expect(codes.map(({ code, limit }) => ({ code, limit }))).toEqual([
        { code: 0, limit: null },
        { code: 1, limit: null },
        { code: 42, limit: null },
      ])
    },
  },
  {
    name: 'a missing command has exit code 127, one that is not executable 126',
    run: async (context) => {
      expect((await context.run(['no-such-program'])).exit).toMatchObject({ code: 127, limit: null })
      expect((await context.run(['/etc/passwd'])).exit).toMatchObject({ code: 126, limit: null })
    },
  },
  {
    name: 'a command that is killed by a signal has exit code 128 plus its number',
    run: async (context) => {
      expect((await context.run('kill -KILL $$')).exit).toMatchObject({ code: 137, limit: null })
    },
  },
  {
    name: 'the command gets the variables of the sandbox and the image, and none of the host',
    run: async (context) => {
      const image = { ...context.subject.image, env: { ...context.subject.image.env, FROM_IMAGE: '1', BOTH: 'image' } }
      const env = { BOTH: 'spec', ODD: `a 'b' "c" $d\n=e` }
      const { output } = await context.run(['env', '-0'], { image, env })
      const variables = Object.fromEntries(
        output.split('\0').map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
      )
      expect(variables).toMatchObject({ FROM_IMAGE: '1', ...env })
      const known = ['', 'PATH', 'HOME', 'HOSTNAME', 'PWD', 'FROM_IMAGE', 'BOTH', 'ODD']
      expect(Object.keys(variables).filter((name) => !known.includes(name))).toEqual([])
    },
  },
  {
    name: 'the command runs as the user of the image',
    run: async (context) => {
      const { output } = await context.run('id -u; id -g; pwd', { workdir: '/usr/share' })
      expect(output).toBe('0\n0\n/usr/share\n')
    },
  },
  {
    name: 'the command runs as the specified user, by name or number, with that user’s groups and home',
    run: async (context) => {
      const named = await context.run('id -u; id -g; echo $HOME', { user: 'www-data' })
      expect(named.output).toBe('33\n33\n/var/www\n')
      const numbered = await context.run('id -u; id -g; touch /no 2> /dev/null || echo refused', { user: 12345 })
      expect(numbered.output).toBe('12345\n0\nrefused\n')
    },
  },
  {
    name: 'arguments arrive unchanged',
    run: async (context) => {
      const words = ['%s|', '', ' a  b ', `'"$HOME\``, '-n', 'é\n']
      expect((await context.run(['printf', ...words])).output).toBe(`${words.slice(1).join('|')}|`)
    },
  },
  {
    name: 'input arrives completely and ends',
    run: async (context) => {
      const input = `first 'line'\n${'x'.repeat(200_000)}`
      expect((await context.run('wc -c', { input })).output.trim()).toBe(String(input.length))
      expect((await context.run('cat')).output).toBe('')
    },
  },
  {
    name: 'output and errors are recorded in order, also through /dev/stdout and /dev/stderr',
    run: async (context) => {
      const script = 'echo 1; echo 2 >&2; echo 3 > /dev/stdout; echo 4 > /dev/stderr'
      expect((await context.run(script)).output).toBe('1\n2\n3\n4\n')
    },
  },
  {
    name: 'a user other than root can open /dev/stdout and /dev/stderr',
    run: async (context) => {
      const script = 'echo 1 > /dev/stdout; echo 2 > /dev/stderr'
      expect((await context.run(script, { user: 'nobody' })).output).toBe('1\n2\n')
    },
  },
  {
    name: 'all processes are dead when the sandbox has ended',
    run: async (context) => {
      const mark = randomUUID()
      const sandbox = await context.start(`${daemonScript(mark)} sleep 1; exit 3`)
      await waitForProcess(mark)
      expect((await sandbox.exited).code).toBe(3)
      expect(await processesNaming(mark)).toEqual([])
    },
  },
  {
    name: 'the time limit also ends daemons and processes that ignore signals',
    run: async (context) => {
      const mark = randomUUID()
      const begun = performance.now()
      const script = `trap "" TERM INT; ${daemonScript(mark)} while :; do sleep 0.1; done`
      const sandbox = await context.start(script, { limits: { seconds: 2 } })
      await waitForProcess(mark)
      const exit = await sandbox.exited
      expect(await processesNaming(mark)).toEqual([])
      expect(exit).toMatchObject({ code: null, limit: 'seconds' })
      expect(performance.now() - begun).toBeLessThan(12_000)
      // Timers may fire a fraction of a millisecond early.
      expect(exit.seconds).toBeGreaterThan(1.99)
    },
  },
  {
    name: 'kill ends the sandbox at once and is a no-op afterwards',
    run: async (context) => {
      const mark = randomUUID()
      const sandbox = await context.start(`${daemonScript(mark)} sleep 600`)
      await waitForProcess(mark)
      await sandbox.kill()
      expect(await sandbox.exited).toMatchObject({ code: null, limit: null })
      expect(await processesNaming(mark)).toEqual([])
      await sandbox.kill()
    },
  },
  {
    name: 'a second start with the same id is an error and does not affect the first',
    run: async (context) => {
      const id = `twice-${randomUUID()}`
      const first = await context.start('sleep 0.5; exit 7', { id })
      await expect(context.start('true', { id })).rejects.toThrow(id)
      expect((await first.exited).code).toBe(7)
    },
  },
  {
    name: 'remove leaves nothing, even of a running sandbox, and is a no-op the second time',
    run: async (context) => {
      const id = `gone-${randomUUID()}`
      const sandbox = await context.start('sleep 600', { id, limits: { diskMb: 64, memoryMb: 256 } })
      expect(await context.subject.leftovers(id)).not.toEqual([])
      await sandbox.remove()
      await sandbox.remove()
      expect(await context.subject.leftovers(id)).toEqual([])
    },
  },
  {
    name: 'an image that cannot be started throws SandboxUnavailable and leaves nothing',
    run: async (context) => {
      const id = `broken-${randomUUID()}`
      await expect(context.start('true', { id, image: context.subject.brokenImage })).rejects.toThrow(
        SandboxUnavailable,
      )
      expect(await context.subject.leftovers(id)).toEqual([])
    },
  },
  {
    name: 'a sandbox that cannot be set up throws SandboxUnavailable',
    run: async (context) => {
      const mounts = [{ kind: 'folder' as const, source: '/no/such/place', target: '/given', readOnly: true }]
      await expect(context.run('true', { mounts })).rejects.toThrow(SandboxUnavailable)
      await expect(context.run('true', { workdir: '/etc/passwd/below' })).rejects.toThrow(SandboxUnavailable)
    },
  },
]
