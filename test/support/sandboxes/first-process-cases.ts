import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { ConformanceCase } from './conformance-case.ts'

const CALLS = {
  x64: { ptrace: 101, pidfd_open: 434, pidfd_getfd: 438, readv: 310, writev: 311, kcmp: 312, prctl: 157 },
  arm64: { ptrace: 117, pidfd_open: 434, pidfd_getfd: 438, readv: 270, writev: 271, kcmp: 272, prctl: 167 },
}
const calls = process.arch === 'arm64' ? CALLS.arm64 : CALLS.x64

/**
 * Prints each attempt that gets at the process `$ARGV[0]`. EPERM, EACCES, ENOENT and ENOSYS are refusals; any other error would mean
 * that the attempt itself is wrong, and is printed too.
 */
const ATTACK = `use strict; use POSIX ();
my $pid = 0 + shift; my $own = $$;
sub note { my ($name, $done) = @_; my $why = 0 + $!; print "$name ", ($done ? "worked" : "failed $why"), "\\n" if $done || !grep { $_ == $why } 1, 2, 13, 38 }
sub call { my ($name, $number, @args) = @_; $! = 0; my $got = syscall($number, @args); note($name, $got >= 0); return $got }
my $buffer = "x" x 8;
my $local = pack("PQ", $buffer, 8); my $remote = pack("QQ", 0x400000, 8);
for my $request (16, 0x4206) { if (call("ptrace $request", ${calls.ptrace}, $request, $pid, 0, 0) >= 0) { waitpid $pid, 0; syscall(${calls.ptrace}, 17, $pid, 0, 0) } }
my $handle = syscall(${calls.pidfd_open}, $pid, 0);
if ($handle >= 0) { for my $number (0 .. 20) { call("pidfd_getfd $number", ${calls.pidfd_getfd}, $handle, $number, 0) } }
call("process_vm_readv", ${calls.readv}, $pid, $local, 1, $remote, 1, 0);
call("process_vm_writev", ${calls.writev}, $pid, $local, 1, $remote, 1, 0);
call("kcmp", ${calls.kcmp}, $pid, $own, 0, 0, 0);
for my $name ("mem", "task/$pid/mem") { $! = 0; my $file; note("write $name", open $file, "+<", "/proc/$pid/$name") }
for my $name ("environ", "maps", "syscall", "stack", "auxv") { $! = 0; my ($file, $some); note("read $name", open($file, "<", "/proc/$pid/$name") && sysread($file, $some, 1)) }
for my $name (0 .. 20) { $! = 0; my $file; note("open fd/$name", open $file, "<", "/proc/$pid/fd/$name") }
for my $name ("exe", "cwd", "root", "fd/0", "fd/1", "fd/2", "ns/pid") { $! = 0; note("link $name", defined readlink "/proc/$pid/$name") }
`

/** Sends every signal to the first process, several times. */
const SIGNALS = `for my $round (1 .. 3) { for my $signal (1 .. 64) { kill $signal, 1 } } select undef, undef, undef, 0.2;`

/** A debugger may trace a process of its own. */
const DEBUG = `my $child = fork() // die; if (!$child) { sleep 60; exit }
print "no debugger\\n" if syscall(${calls.ptrace}, 16, $child, 0, 0) < 0; waitpid $child, 0; kill 9, $child;`

const attack = (rest: string): string[] => ['perl', '-e', `${ATTACK}${rest}`, '1']

const PLACES = [
  ['root', { user: 'root' as const }],
  ['an ordinary user', { user: 'nobody' as const }],
  ['root beside other commands', { user: 'root' as const, usesExec: true }],
] as const

export const firstProcessCases: ConformanceCase[] = [
  ...PLACES.map(([who, options]) => ({
    name: `${who} can neither trace, read, write nor signal the first process, and its own exit code is reported`,
    run: async (fixture: Parameters<ConformanceCase['run']>[0]) => {
      const { exit, output } = await fixture.run(attack(`${SIGNALS} ${DEBUG} exit 42`), options)
      expect(output).toBe('')
      expect(exit).toMatchObject({ code: 42, limit: null })
    },
  })),
  {
    name: 'an added command cannot access the first process either',
    run: async (fixture) => {
      const sandbox = await fixture.start(null)
      const outputFile = join(await fixture.folder(), 'added')
      const limits = { outputBytes: 1e5, seconds: 30 }
      for (const user of ['root', 'nobody']) {
        const command = attack(`${SIGNALS} ${DEBUG} exit 42`)
        const exit = await sandbox.exec({ command, user, workdir: null, env: {}, input: '', outputFile, limits })
        expect(await readFile(outputFile, 'utf8'), user).toBe('')
        expect(exit, user).toMatchObject({ code: 42, limit: null })
      }
      await sandbox.kill()
    },
  },
  {
    name: 'a command that kills all processes it can reach ends without a failure of the sandbox',
    run: async (fixture) => {
      for (const usesExec of [false, true]) {
        const script = 'kill -9 1; kill -9 -1; for p in $(seq 1 99); do kill -9 $p; done; exit 3'
        const { exit } = await fixture.run(script, { usesExec })
        expect(exit.limit).toBe(null)
        expect(exit.code === null || (exit.code > 0 && exit.code <= 255), String(exit.code)).toBe(true)
      }
    },
  },
]
