import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, vi } from 'vitest'
import type { CaseContext } from './case-context.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { processesNaming } from './processes.ts'

/** CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID. */
const ALLOWED = 0b1111_1011n

/** Numbers of system calls differ between machines; perl has no names for them. */
const CALLS = {
  x64: { mount: 165, unshare: 272, setns: 308, bpf: 321, keyctl: 250, perf: 298, clone3: 435, userfaultfd: 323 },
  arm64: { mount: 40, unshare: 97, setns: 268, bpf: 280, keyctl: 219, perf: 241, clone3: 435, userfaultfd: 282 },
}
const calls = process.arch === 'arm64' ? CALLS.arm64 : CALLS.x64

/** Lists the attempts that succeed. */
async function succeeded(fixture: CaseContext, attempts: string[]): Promise<string[]> {
  const script = attempts.map((attempt, index) => `if ( ${attempt} ) > /dev/null 2>&1; then echo ${index}; fi`)
  const { output } = await fixture.run(script.join('\n'))
  const indexes = output.split('\n').filter(Boolean)
  return indexes.map((index) => attempts[Number(index)] ?? index)
}

const perl = (call: string): string => `perl -e 'exit(syscall(${call}) < 0)'`

export const isolationCases: ConformanceCase[] = [
  {
    name: 'has no capability beyond the list and cannot gain any',
    run: async (fixture) => {
      const { output } = await fixture.run('grep -E "^(Cap|NoNewPrivs)" /proc/self/status')
      const values = Object.fromEntries(output.split('\n').map((line) => line.split(/:\s+/)))
      for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) {
        expect(BigInt(`0x${values[set]}`) & ~ALLOWED, set).toBe(0n)
      }
      expect(values.NoNewPrivs).toBe('1')
    },
  },
  {
    name: 'an ordinary user has no capability and gains none with su',
    run: async (fixture) => {
      const { output } = await fixture.run('grep CapEff /proc/self/status; su -c id root < /dev/null', {
        user: 'nobody',
      })
      expect(output).toMatch(/CapEff:\s+0000000000000000/)
      expect(output).not.toContain('uid=0')
    },
  },
  {
    name: 'cannot mount, create namespaces or devices, or change its root',
    run: async (fixture) => {
      const attempts = [
        'mount -t tmpfs none /mnt',
        'mount --bind / /mnt',
        'umount /proc',
        'mount -o remount,rw /proc/sys',
        'unshare --mount true',
        'unshare --net true',
        'unshare --user true',
        'unshare --user --map-root-user --mount true',
        'mknod /dev-node b 7 0',
        'mknod /tmp/mem c 1 1',
        'chroot / true',
        'nsenter -t 1 -m true',
        perl(`${calls.unshare}, 0x10000000`),
      ]
      expect(await succeeded(fixture, attempts)).toEqual([])
    },
  },
  {
    name: 'dangerous system calls are refused',
    run: async (fixture) => {
      const attempts = [
        perl(`${calls.bpf}, 0, 0, 0`),
        perl(`${calls.keyctl}, 0, -3, 1`),
        perl(`${calls.perf}, 0, 0, -1, -1, 0`),
        perl(`${calls.userfaultfd}, 1`),
        'dmesg',
        'hostname other',
        'date -s 2020-01-01',
        'swapon /dev/vda',
        'sysctl -w kernel.hostname=x',
      ]
      expect(await succeeded(fixture, attempts)).toEqual([])
    },
  },
  {
    name: 'the kernel’s settings cannot be written, and its secrets cannot be read',
    run: async (fixture) => {
      const attempts = [
        'echo x > /proc/sys/kernel/core_pattern',
        'echo 1 > /proc/sys/net/ipv4/ip_forward',
        'echo h > /proc/sysrq-trigger',
        'echo x > /sys/kernel/uevent_helper',
        'mkdir /sys/fs/cgroup/memory/mine',
        'head -c 1 /proc/kcore | grep -q .',
        'head -c 1 /dev/mem',
        'head -c 1 /dev/vda',
        'head -c 1 /dev/kmsg',
      ]
      expect(await succeeded(fixture, attempts)).toEqual([])
    },
  },
  {
    name: 'sees no process of this machine',
    run: async (fixture) => {
      const { output } = await fixture.run(
        `ls /proc | grep -c '^[0-9]'; tr '\\0' ' ' < /proc/1/cmdline; kill -0 ${process.pid}`,
      )
      expect(Number(output.split('\n')[0])).toBeLessThan(10)
      expect(output).not.toContain('vitest')
      expect(output).toContain('No such process')
    },
  },
  {
    name: 'inherits no open file of the service',
    run: async (fixture) => {
      const script = 'for p in self 1; do for f in /proc/$p/fd/*; do readlink $f; done; done'
      const { output } = await fixture.run(script, { input: 'x' })
      // The sandbox's own input and output may be named pipes.
      const own = /^(pipe:.*|socket:.*|anon_inode:.*|\/dev\/null|\/proc\/.*|.*\/(input|output))?$/
      expect(output.split('\n').filter((target) => !own.test(target))).toEqual([])
      const reopened = await fixture.run('[ -f /proc/self/fd/0 ] || [ -f /proc/self/fd/1 ]', { input: 'x' })
      expect(reopened.exit.code).toBe(1)
    },
  },
  {
    name: 'paths of this machine neither exist nor are named in the sandbox',
    run: async (fixture) => {
      const secret = join(await fixture.folder(), 'secret')
      await writeFile(secret, 'of the machine')
      const { output } = await fixture.run(
        `cat ${secret} /proc/1/root${secret} /proc/self/root${secret} /../../..${secret}; ls ${process.cwd()}; hostname`,
      )
      expect(output).not.toContain('of the machine')
      expect(output).not.toContain('package.json')
      expect(output).not.toContain((await readFile('/proc/sys/kernel/hostname', 'utf8')).trim().padEnd(3, '\n'))
    },
  },
  {
    name: 'two sandboxes of one image see nothing of each other',
    run: async (fixture) => {
      const mark = randomUUID()
      const look = 'cat /mark /dev/shm/mark; cat /proc/[0-9]*/cmdline | tr "\\0" " "'
      const hide = `echo ${mark} > /mark; echo ${mark} > /dev/shm/mark`
      // The sandbox sees its own process, which proves that the check works.
      const alone = await fixture.run(`${hide}; ${look}`)
      expect(alone.output.split(mark).length).toBeGreaterThan(3)
      const first = await fixture.start(`${hide}; sh -c ': ${mark}; sleep 30; :'`)
      await vi.waitFor(async () => expect(await processesNaming(`: ${mark}`)).not.toEqual([]), { timeout: 10_000 })
      const { output } = await fixture.run(look)
      expect(output).toContain('cat /proc')
      expect(output).not.toContain(mark)
      await first.kill()
    },
  },
]
