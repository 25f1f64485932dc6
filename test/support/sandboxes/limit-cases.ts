import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Exit } from '../../../src/sandboxes/sandbox.ts'
import type { ConformanceCase } from './conformance-case.ts'

const NOT_WRITABLE = 9

/** Writes 256 MiB through /etc/hosts, unless the file cannot be written at all. */
const FILL_HOSTS = `( : >> /etc/hosts ) 2> /dev/null || exit ${NOT_WRITABLE}
dd if=/dev/zero of=/etc/hosts bs=1M count=256 2> /dev/null || exit 4; sleep 15`

function expectDiskLimit({ code, limit }: Exit): void {
  if (code === NOT_WRITABLE) return
  expect(limit).toBe('disk')
  expect([4, null]).toContain(code)
}

export const limitCases: ConformanceCase[] = [
  {
    name: 'memory: a command above the limit is ended, and the limit is reported',
    run: async (fixture) => {
      // Never more than twice the limit, so that a provider without one does no harm.
      const { exit } = await fixture.run(`perl -e '$x = "a" x 128e6; print "too much"'`, { limits: { memoryMb: 64 } })
      expect(exit).toMatchObject({ code: 137, limit: 'memory' })
    },
  },
  {
    name: 'memory: the limit is reported if a child process is ended and the command fails',
    run: async (fixture) => {
      const { exit } = await fixture.run(`perl -e '$x = "a" x 128e6' ; exit 5`, { limits: { memoryMb: 64 } })
      expect(exit).toMatchObject({ code: 5, limit: 'memory' })
    },
  },
  {
    name: 'pids: the number of processes is limited, and the limit is reported',
    run: async (fixture) => {
      // At most a hundred in any case. The counter of the limit is read twice a second while the sandbox lives.
      const script = `perl -e '$| = 1; for (1 .. 100) { my $p = fork(); if (!defined $p) { print "refused\\n"; sleep 1; exit 9 } if (!$p) { sleep 20; exit } }'`
      const { exit, output } = await fixture.run(script, { limits: { pids: 32 } })
      expect(exit).toMatchObject({ code: 9, limit: 'pids' })
      expect(output).toBe('refused\n')
    },
  },
  {
    name: 'disk: usage is limited, and the limit is reported',
    run: async (fixture) => {
      const script = 'dd if=/dev/zero of=/big bs=1M count=256 2> /dev/null || exit 4; sleep 5'
      const { exit } = await fixture.run(script, { limits: { diskMb: 64 } })
      expect(exit.limit).toBe('disk')
      expect([4, null]).toContain(exit.code)
    },
  },
  {
    name: 'disk: files that the engine mounts over the image count too',
    run: async (fixture) => {
      const { exit } = await fixture.run(FILL_HOSTS, { limits: { diskMb: 64 } })
      expectDiskLimit(exit)
    },
  },
  {
    name: 'disk: files that the engine mounts count also in a sandbox with a volume',
    run: async (fixture) => {
      const network = { sandboxNetwork: await fixture.openNetwork(), names: ['writer'] }
      const mounts = [{ kind: 'volume' as const, name: 'data', target: '/data', readOnly: false }]
      const { exit } = await fixture.run(FILL_HOSTS, { network, mounts, limits: { diskMb: 64 } })
      expectDiskLimit(exit)
    },
  },
  {
    name: 'output: output above the limit is dropped, counted and reported',
    run: async (fixture) => {
      const outputFile = join(await fixture.folder(), 'out')
      const { exit } = await fixture.run('head -c 30000000 /dev/zero', { outputFile, limits: { outputBytes: 1000 } })
      expect(exit).toMatchObject({ code: 0, limit: 'output', outputBytes: 30_000_000 })
      expect((await stat(outputFile)).size).toBe(1000)
    },
  },
  {
    name: 'output: a flood costs little memory',
    run: async (fixture) => {
      const before = process.memoryUsage.rss()
      let most = before
      const watch = setInterval(() => {
        most = Math.max(most, process.memoryUsage.rss())
      }, 20)
      const sandbox = await fixture.start('head -c 300000000 /dev/zero', {
        limits: { outputBytes: 300e6, seconds: 55 },
      })
      const exit = await sandbox.exited
      clearInterval(watch)
      expect(exit).toMatchObject({ code: 0, limit: null, outputBytes: 300_000_000 })
      expect(most - before).toBeLessThan(100e6)
    },
  },
  {
    name: 'cpus: CPU time is limited',
    run: async (fixture) => {
      // Processor time over wall time, in hundredths.
      const script = `perl -e '$b = time; 1 while time - $b < 3; ($u, $s) = times; print int(100 * ($u + $s) / (time - $b))'`
      const { output } = await fixture.run(script, { limits: { cpus: 0.2 } })
      expect(Number(output)).toBeLessThan(40)
    },
  },
]
