import { readdirSync, readlinkSync } from 'node:fs'
import { expect, test } from 'vitest'
import { collected, openCaseContext } from '../../test/support/sandboxes/case-context.ts'
import { createLocalSubject } from '../../test/support/sandboxes/local-subject.ts'

const DEEP = 'cd /tmp; N=$(printf %0200d 0); for i in $(seq 1 60); do mkdir $N && cd $N || break; done'

/** Lists the pipes with the output of sandboxes that this process has open. */
const listOutputPipes = (): string[] =>
  readdirSync('/proc/self/fd').flatMap((name) => {
    try {
      return readlinkSync(`/proc/self/fd/${name}`).match(/.*\/output(?: \(deleted\))?$/)?.[0] ?? []
    } catch {
      return []
    }
  })

for (const runtime of process.getuid?.() === 0 ? (['bwrap', 'runc'] as const) : []) {
  test(`${runtime}: a sandbox cannot open a program of this machine for writing`, async () => {
    await using subject = await createLocalSubject(runtime)
    await using fixture = await openCaseContext(subject)
    // Only that it runs would protect it, and an agent can end that: it owns the first process.
    const { output } = await fixture.run('test -w /proc/1/exe && echo writable')
    expect(output).toBe('')
  })

  test(`${runtime}: removes folders that are nested deeper than the maximum path length`, async () => {
    await using subject = await createLocalSubject(runtime)
    await using fixture = await openCaseContext(subject)
    const { sandbox, exit } = await fixture.run(DEEP)
    expect(exit.code).toBe(0)
    await sandbox.remove()
    expect(await subject.leftovers(sandbox.id)).toEqual([])
    expect(await subject.provider.reap()).toBe(0)
  })

  test(`${runtime}: a sandbox that cannot start because of its files leaves no pipe open`, async () => {
    await using subject = await createLocalSubject(runtime)
    await using fixture = await openCaseContext(subject)
    const { sandbox } = await fixture.run('rm -rf /app; ln -s app /app', { workdir: '/' })
    const baseFilesystem = { kind: 'snapshot' as const, from: sandbox.stopped, without: [] }
    await expect(fixture.run('true', { workdir: '/app', baseFilesystem })).rejects.toThrow()
    await expect.poll(listOutputPipes).toEqual([])
  })

  test(`${runtime}: a sandbox without a network cannot connect to the host`, async () => {
    await using subject = await createLocalSubject(runtime)
    await using fixture = await openCaseContext(subject)
    const { output } = await fixture.run(['perl', '-e', 'print socket(my $s, 40, 1, 0) ? "open" : "closed"'])
    expect(output).toBe('closed')
  })

  test(`${runtime}: filters a workspace with names that are not UTF-8`, async () => {
    await using subject = await createLocalSubject(runtime)
    await using fixture = await openCaseContext(subject)
    const names = `F=$(printf 'caf\\351'); mkdir /app/$F; echo x > /app/$F/file; ln -s /etc /app/$F/link; echo y > /app/plain`
    const { sandbox } = await fixture.run(names, { workdir: '/app' })
    const baseFilesystem = { kind: 'workspace' as const, from: sandbox.stopped, paths: ['/app'] }
    const { output } = await fixture.run('cat /app/plain /app/caf*/file; ls /app/caf*', {
      workdir: '/app',
      baseFilesystem,
    })
    expect(output).toBe('y\nx\nfile\n')
    expect((await collected(sandbox.stopped, '/app'))?.leftOut.length).toBeGreaterThan(0)
  })

  test(`${runtime}: a workspace may have the maximum number of hard links to a file`, {
    timeout: 120_000,
  }, async () => {
    await using subject = await createLocalSubject(runtime)
    await using fixture = await openCaseContext(subject)
    const links = `perl -e 'chdir "/app"; open F, ">f"; for (1..64990) { link "f", "l$_" or die }'`
    const { sandbox, exit } = await fixture.run(links, { workdir: '/app' })
    expect(exit.code).toBe(0)
    const baseFilesystem = { kind: 'workspace' as const, from: sandbox.stopped, paths: ['/app'] }
    const { output } = await fixture.run('ls /app | wc -l', { workdir: '/app', baseFilesystem })
    expect(output).toBe('64991\n')
  })
}
