import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, vi } from 'vitest'
import { type ExecSpec, type Exit, type Sandbox, SandboxUnavailable } from '../../../src/sandboxes/sandbox.ts'
import type { CaseContext } from './case-context.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { processesNaming } from './processes.ts'

type ExecCaseSpec = Partial<Omit<ExecSpec, 'command' | 'limits'>> & { limits?: Partial<ExecSpec['limits']> }

/** Runs a command; a string is passed to sh. */
async function execIn(
  fixture: CaseContext,
  sandbox: Sandbox,
  command: string | string[],
  options: ExecCaseSpec = {},
): Promise<{ exit: Exit; output: string }> {
  const outputFile = join(await fixture.folder(), 'exec.out')
  const exit = await sandbox.exec({
    user: null,
    workdir: null,
    env: {},
    input: '',
    outputFile,
    ...options,
    command: typeof command === 'string' ? ['sh', '-c', command] : command,
    limits: { outputBytes: 1e6, seconds: 20, ...options.limits },
  })
  return { exit, output: await readFile(outputFile, 'utf8') }
}

const idle = (fixture: CaseContext, options = {}): Promise<Sandbox> =>
  fixture.start(null, { usesExec: true, ...options })

const seen = (mark: string): Promise<void> =>
  vi.waitFor(async () => expect(await processesNaming(mark)).not.toEqual([]), { timeout: 10_000, interval: 20 })

export const execCases: ConformanceCase[] = [
  {
    name: 'exec: a sandbox without a command runs added commands until it is killed',
    run: async (fixture) => {
      const sandbox = await idle(fixture)
      const codes = []
      for (const code of [0, 3]) codes.push((await execIn(fixture, sandbox, `exit ${code}`)).exit)
      codes.push((await execIn(fixture, sandbox, ['no-such-program'])).exit)
      codes.push((await execIn(fixture, sandbox, 'kill -KILL $$')).exit)
      expect(codes.map(({ code, limit }) => ({ code, limit }))).toEqual(
        [0, 3, 127, 137].map((code) => ({ code, limit: null })),
      )
      await sandbox.kill()
      expect(await sandbox.exited).toMatchObject({ code: null, limit: null })
    },
  },
  {
    name: 'exec: a sandbox without a command has a time limit too',
    run: async (fixture) => {
      const sandbox = await idle(fixture, { limits: { seconds: 1 } })
      expect(await sandbox.exited).toMatchObject({ code: null, limit: 'seconds' })
    },
  },
  {
    name: 'exec: a command has its own arguments, variables, folder, input and output',
    run: async (fixture) => {
      const image = {
        ...fixture.subject.image,
        env: { ...fixture.subject.image.env, FROM_IMAGE: 'image', BOTH: 'image' },
      }
      const sandbox = await idle(fixture, { image })
      const words = ['%s|', '', ' a  b ', `'"$HOME\``, '-n', 'é\n']
      expect((await execIn(fixture, sandbox, ['printf', ...words])).output).toBe(`${words.slice(1).join('|')}|`)
      const env = { BOTH: 'exec', ODD: `a 'b' "c" $d\n=e` }
      const shown = await execIn(fixture, sandbox, 'pwd; echo "$FROM_IMAGE $BOTH $ODD"', { env, workdir: '/usr/share' })
      expect(shown.output).toBe(`/usr/share\nimage exec ${env.ODD}\n`)
      const again = await execIn(fixture, sandbox, 'echo "$BOTH $ODD"; echo error >&2; echo 3 > /dev/stdout')
      expect(again.output).toBe('image \nerror\n3\n')
      const input = Buffer.concat([Buffer.from([0, 255, 10, 13]), Buffer.alloc(200_000, 'x')])
      const heard = await execIn(fixture, sandbox, ['sh', '-c', 'head -c 4 | od -An -tx1; wc -c'], { input })
      expect(heard.output.replaceAll(/ +/g, ' ').trim()).toMatch(/^00 ff 0a 0d\n/)
      expect((await execIn(fixture, sandbox, 'cat')).output).toBe('')
      expect((await execIn(fixture, sandbox, 'wc -c', { input })).output.trim()).toBe('200004')
    },
  },
  {
    name: 'exec: a command runs as the given user, with no more rights than the main command',
    run: async (fixture) => {
      const sandbox = await idle(fixture)
      const named = await execIn(fixture, sandbox, 'id -u; id -g; echo $HOME; echo 1 > /dev/stdout', {
        user: 'www-data',
      })
      expect(named.output).toBe('33\n33\n/var/www\n1\n')
      const script = 'id -u; grep -E "^(Cap(Prm|Eff|Bnd|Amb|Inh)|NoNewPrivs|Seccomp):" /proc/self/status'
      const added = await execIn(fixture, sandbox, script, { user: 0 })
      const plain = await fixture.run(script, { user: 0 })
      expect(added.output).toBe(plain.output)
    },
  },
  {
    name: 'exec: a command has the same rights and isolation as the main command',
    run: async (fixture) => {
      const sandbox = await idle(fixture)
      const script = 'grep -E "^(Cap(Prm|Eff|Bnd|Amb|Inh)|NoNewPrivs|Seccomp):" /proc/self/status; ls /sys/class/net'
      const plain = await fixture.run(script)
      expect((await execIn(fixture, sandbox, script)).output).toBe(plain.output)
      const attempts = 'mount -t tmpfs none /mnt || unshare --net true || kill -0 1000000 || echo refused'
      expect((await execIn(fixture, sandbox, `(${attempts}) 2> /dev/null`)).output).toBe('refused\n')
    },
  },
  {
    name: 'exec: a command sees files and processes of the main command, whose end ends the sandbox',
    run: async (fixture) => {
      const mark = randomUUID()
      const command = `echo hello > /left; : ${mark}; while [ ! -e /go ]; do sleep 0.05; done; cat /go; exit 7`
      const outputFile = join(await fixture.folder(), 'main.out')
      const sandbox = await fixture.start(command, { usesExec: true, outputFile, env: { OWN: 'main' } })
      await seen(mark)
      const { output } = await execIn(fixture, sandbox, 'cat /left; cat /proc/[0-9]*/cmdline | tr "\\0" " "')
      expect(output).toMatch(/^hello\n/)
      expect(output).toContain(mark)
      await execIn(fixture, sandbox, 'echo gone > /go')
      expect(await sandbox.exited).toMatchObject({ code: 7, limit: null })
      expect(await readFile(outputFile, 'utf8')).toBe('gone\n')
    },
  },
  {
    name: 'exec: several commands run concurrently',
    run: async (fixture) => {
      const sandbox = await idle(fixture)
      // Each waits for the other.
      const both = await Promise.all([
        execIn(fixture, sandbox, 'touch /one; while [ ! -e /two ]; do sleep 0.02; done; echo 1'),
        execIn(fixture, sandbox, 'touch /two; while [ ! -e /one ]; do sleep 0.02; done; echo 2'),
      ])
      expect(both.map(({ output }) => output)).toEqual(['1\n', '2\n'])
    },
  },
  {
    name: 'exec: a command ends at its timeout, and the sandbox continues',
    run: async (fixture) => {
      const mark = randomUUID()
      const sandbox = await idle(fixture)
      const late = execIn(fixture, sandbox, `echo begun; sh -c ': ${mark}; sleep 600; :'`, { limits: { seconds: 2 } })
      await seen(mark)
      const { exit, output } = await late
      expect(exit).toMatchObject({ code: null, limit: 'seconds' })
      expect(output).toBe('begun\n')
      expect((await execIn(fixture, sandbox, 'echo still')).output).toBe('still\n')
      await sandbox.kill()
      await sandbox.exited
      expect(await processesNaming(mark)).toEqual([])
    },
  },
  {
    name: 'exec: output above the limit is dropped, counted and reported',
    run: async (fixture) => {
      const sandbox = await idle(fixture)
      const limits = { outputBytes: 1000 }
      const { exit, output } = await execIn(fixture, sandbox, 'head -c 3000000 /dev/zero', { limits })
      expect(exit).toMatchObject({ code: 0, limit: 'output', outputBytes: 3_000_000 })
      expect(output.length).toBe(1000)
    },
  },
  {
    name: 'exec: background processes do not delay the end of a command',
    run: async (fixture) => {
      const sandbox = await idle(fixture)
      const { exit, output } = await execIn(
        fixture,
        sandbox,
        '(while :; do sleep 0.1; echo more; touch /alive; done) & echo 1',
      )
      expect(exit.code).toBe(0)
      expect(output).toMatch(/^1\n/)
      const look = 'rm -f /alive; for i in $(seq 100); do [ -e /alive ] && exit 0; sleep 0.05; done; exit 1'
      expect((await execIn(fixture, sandbox, look)).exit.code).toBe(0)
    },
  },
  {
    name: 'exec: killing the sandbox ends a command without an exit code, and further commands are refused',
    run: async (fixture) => {
      const mark = randomUUID()
      const sandbox = await idle(fixture)
      const cut = execIn(fixture, sandbox, `sh -c ': ${mark}; sleep 600; :'`)
      await seen(mark)
      await sandbox.kill()
      expect((await cut).exit).toMatchObject({ code: null, limit: null })
      await sandbox.exited
      expect(await processesNaming(mark)).toEqual([])
      await expect(execIn(fixture, sandbox, 'true')).rejects.toThrow(SandboxUnavailable)
    },
  },
  {
    name: 'exec: secrets in variables appear on no command line of this machine',
    run: async (fixture) => {
      const secret = randomUUID()
      const mark = randomUUID()
      const sandbox = await fixture.start('sleep 30', { usesExec: true, env: { TOKEN: secret } })
      const look = `[ "$OTHER" = "${secret.slice(0, 8)}$REST" ] || exit 1; sh -c ': ${mark}; sleep 2; :'`
      const env = { OTHER: secret, REST: secret.slice(8) }
      const running = execIn(fixture, sandbox, look, { env })
      await seen(mark)
      expect(await processesNaming(secret)).toEqual([])
      expect((await running).exit.code).toBe(0)
      expect(await processesNaming(secret)).toEqual([])
    },
  },
]
