import { randomUUID } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type CaseContext, openCaseContext } from '../../test/support/sandboxes/case-context.ts'
import { createLocalSubject } from '../../test/support/sandboxes/local-subject.ts'
import { processesNaming } from '../../test/support/sandboxes/processes.ts'
import type { ProviderUnderTest } from '../../test/support/sandboxes/provider-under-test.ts'
import { createLog } from '../platform/log.ts'
import { createLocalProvider } from './local.ts'
import { type ExecSpec, type Sandbox, SandboxUnsupported } from './sandbox.ts'

vi.setConfig({ testTimeout: 60_000 })

const command = (fixture: CaseContext, script: string, options: Partial<ExecSpec> = {}): Promise<ExecSpec> =>
  fixture.folder().then((folder) => ({
    command: ['sh', '-c', script],
    user: null,
    workdir: null,
    env: {},
    input: '',
    outputFile: join(folder, 'out'),
    limits: { outputBytes: 1e6, seconds: 20 },
    ...options,
  }))

const run = async (fixture: CaseContext, sandbox: Sandbox, script: string): Promise<string> => {
  const spec = await command(fixture, script)
  await sandbox.exec(spec)
  return readFile(spec.outputFile, 'utf8')
}

test.skipIf(process.getuid?.() !== 0).each(['bwrap', 'runc'] as const)(
  'a data folder behind a symbolic link has working sandboxes under %s',
  async (runtime) => {
    const folder = await mkdtemp(join(tmpdir(), 'assay-linked-'))
    const [real, link] = [await mkdtemp(join(folder, 'real-')), join(folder, 'link')]
    await symlink(real, link)
    const provider = createLocalProvider({ dataFolder: link, runtime, allowHostBase: true, log: createLog('silent') })
    const signal = new AbortController().signal
    const source = { kind: 'prebuilt', name: 'debian:bookworm-slim', folder: null, workdir: null } as const
    const image = await provider.prepare(source, { signal, timeoutSec: 60, onLog: () => {} })
    const subject = { provider, image, otherImage: image, brokenImage: image, unable: {}, leftovers: async () => [] }
    await using fixture = await openCaseContext({ ...subject, [Symbol.asyncDispose]: async () => {} })
    expect((await fixture.run('echo it works')).output).toBe('it works\n')
    await rm(folder, { recursive: true })
  },
)

describe.skipIf(process.getuid?.() !== 0).each(['bwrap', 'runc'] as const)('the control shell under %s', (runtime) => {
  let subject: ProviderUnderTest

  beforeAll(async () => {
    subject = await createLocalSubject(runtime)
  }, 600_000)
  afterAll(() => subject[Symbol.asyncDispose]())

  test('ends all of a command’s process group when its time is up', async () => {
    await using fixture = await openCaseContext(subject)
    const mark = randomUUID()
    const sandbox = await fixture.start(null)
    const limits = { outputBytes: 1e6, seconds: 1 }
    await sandbox.exec(
      await command(fixture, `sh -c ': ${mark}; sleep 600; :' & sh -c ': ${mark}; sleep 600; :'`, { limits }),
    )
    await vi.waitFor(async () => expect(await processesNaming(mark)).toEqual([]), { timeout: 5000 })
  })

  test('a full disk explains the command that filled it, and none that fails after it was emptied', async () => {
    await using fixture = await openCaseContext(subject)
    const sandbox = await fixture.start(null, { limits: { diskMb: 32 } })
    const exec = async (script: string) => sandbox.exec(await command(fixture, script))
    expect(await exec('head -c 64M /dev/zero > /big || exit 4')).toMatchObject({ code: 4, limit: 'disk' })
    expect(await exec('rm /big')).toMatchObject({ code: 0, limit: null })
    expect(await exec('exit 5')).toMatchObject({ code: 5, limit: null })
  })

  test('accepts only a number in place of the exit code, with bounded memory', async () => {
    await using fixture = await openCaseContext(subject)
    const sandbox = await fixture.start(null)
    const before = process.memoryUsage.rss()
    const lies = ['2 exit 0; rm', '2 exit 999', '2 pid 1', '1 pid -1', 'x'.repeat(5000), '2 exit']
    const control = '/dev/.assay/control/status'
    await run(
      fixture,
      sandbox,
      `head -c 300000000 /dev/zero > ${control}; printf '\\n${lies.join('\\n')}\\n' > ${control}`,
    )
    const late = await command(fixture, 'sleep 600', { limits: { outputBytes: 10, seconds: 1 } })
    expect(await sandbox.exec(late)).toMatchObject({ code: null, limit: 'seconds' })
    expect(await run(fixture, sandbox, 'echo alive')).toBe('alive\n')
    expect(process.memoryUsage.rss() - before).toBeLessThan(150e6)
  })

  test('cannot be reached by another user in the sandbox, and keeps no secret', async () => {
    await using fixture = await openCaseContext(subject)
    const sandbox = await fixture.start('sleep 600', { usesExec: true, env: { TOKEN: 'secret-of-main' } })
    const script =
      'cd /dev/.assay/control && echo seen; (echo "kill -9 1" > /dev/.assay/control/requests) && echo told; kill -9 -1'
    const spec = await command(fixture, script, { user: 'nobody', env: { OTHER: 'secret-of-exec' } })
    await sandbox.exec(spec)
    expect(await readFile(spec.outputFile, 'utf8')).not.toMatch(/seen|told/)
    expect(await run(fixture, sandbox, 'cd /dev/.assay/control && ls; touch new 2> /dev/null || echo kept')).toMatch(
      /kept\n$/,
    )
    // The file of the search itself may still be there while the search runs.
    const search = 'find /dev/.assay/control -type f | xargs -r grep -sl "secret-[o]f" | xargs -r grep -sL "find /dev"'
    expect(await run(fixture, sandbox, `${search}; true`)).toBe('')
    expect(await run(fixture, sandbox, 'echo alive')).toBe('alive\n')
  })

  test('refuses a variable name that a shell does not support', async () => {
    await using fixture = await openCaseContext(subject)
    const sandbox = await fixture.start(null)
    const spec = await command(fixture, 'true', { env: { 'a.b': '1' } })
    await expect(sandbox.exec(spec)).rejects.toThrow(SandboxUnsupported)
    await expect(sandbox.exec(spec)).rejects.toThrow('a.b')
    expect(await run(fixture, sandbox, 'echo alive')).toBe('alive\n')
  })

  test('many commands leave no open files in the engine', async () => {
    await using fixture = await openCaseContext(subject)
    const sandbox = await fixture.start(null)
    await run(fixture, sandbox, 'true')
    const before = (await readdir('/proc/self/fd')).length
    for (let count = 0; count < 10; count += 1) await run(fixture, sandbox, 'echo x; cat')
    await vi.waitFor(
      async () => expect((await readdir('/proc/self/fd')).length).toBeLessThanOrEqual(before + 1),
      30_000,
    )
  })
})
