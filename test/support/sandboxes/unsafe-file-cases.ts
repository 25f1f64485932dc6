import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type CaseContext, collected } from './case-context.ts'
import type { ConformanceCase } from './conformance-case.ts'

/** Files that an agent may leave in place of those that a runtime opens when the next sandbox starts. */
const ATTACKS: Record<string, string> = {
  'pipes in place of all account files':
    'cd /etc; for f in passwd group shadow gshadow subuid subgid nsswitch.conf; do rm -f $f; mkfifo $f; done',
  'pipes where the engine mounts its own files':
    'cd /etc; for f in hosts hostname resolv.conf; do rm -f $f 2> /dev/null && mkfifo $f; done; true',
  'links that lead nowhere or to themselves':
    'cd /etc; ln -sf passwd.d passwd.d; ln -sf passwd.d passwd; ln -sf /dev/zero group; ln -sf /proc/1/mem shadow',
  'folders in place of account files': 'cd /etc; for f in passwd group; do rm $f; mkdir $f; done',
  'account files that are huge': 'cd /etc; for f in passwd group; do head -c 3000000 /dev/zero >> $f; done',
  'libraries of its own for the lookup of users': 'echo "passwd: agent" > /etc/nsswitch.conf; mkfifo /srv/pipe',
  'a pipe in place of /etc': 'mv /etc /srv/etc; rm -rf /etc; mkfifo /etc',
  'a link in place of /etc':
    'mv /etc /srv/etc; rm -rf /etc; mkfifo /srv/etc/pipe; ln -sf pipe /srv/etc/passwd; ln -s /srv/etc /etc',
  'an /etc made anew with a pipe': 'mv /etc /srv/etc; rm -rf /etc; mkdir /etc; mkfifo /etc/passwd /etc/group',
  'no /etc at all': 'rm -rf /etc',
}

const lastingRun = async (fixture: CaseContext, attack: string) => {
  const { sandbox } = await fixture.run(`( ${attack} ) 2> /dev/null; echo kept > /srv/kept`)
  return { kind: 'snapshot' as const, from: sandbox.stopped, without: [] }
}

export const unsafeFileCases: ConformanceCase[] = [
  ...Object.entries(ATTACKS).map(([what, attack]) => ({
    name: `unsafe files: the next sandbox starts after ${what}`,
    run: async (fixture: CaseContext) => {
      const baseFilesystem = await lastingRun(fixture, attack)
      const { exit, output } = await fixture.run('id -u; cat /srv/kept', { baseFilesystem })
      expect({ output, code: exit.code }).toEqual({ output: '0\nkept\n', code: 0 })
    },
  })),
  ...Object.entries(ATTACKS)
    .filter(([what]) => /pipes in|huge|in place of .etc/.test(what))
    .map(([what, attack]) => ({
      name: `unsafe files: files can be collected after ${what}`,
      run: async (fixture: CaseContext) => {
        const { sandbox } = await fixture.run(`( ${attack} ) 2> /dev/null; mkdir /w; echo kept > /w/kept`)
        expect((await collected(sandbox.stopped, '/w'))?.entries.map(({ path }) => path)).toEqual(['w/', 'w/kept'])
      },
    })),
  {
    name: 'unsafe files: replaced account files are restored from the image',
    run: async (fixture) => {
      const baseFilesystem = await lastingRun(fixture, ATTACKS['pipes in place of all account files'] ?? '')
      const { output } = await fixture.run('id -u; grep -c ^root: /etc/passwd; stat -c %F /etc/shadow', {
        baseFilesystem,
        user: 'www-data',
      })
      expect(output).toBe('33\n1\nregular file\n')
    },
  },
  {
    name: 'unsafe files: commands are added to a sandbox whose account files are pipes',
    run: async (fixture) => {
      const sandbox = await fixture.start(null)
      const outputFile = join(await fixture.folder(), 'added')
      const exec = (script: string) =>
        sandbox.exec({
          command: ['sh', '-c', script],
          user: null,
          workdir: null,
          env: {},
          input: '',
          outputFile,
          limits: { outputBytes: 1000, seconds: 20 },
        })
      const attack = ATTACKS['pipes in place of all account files']
      expect((await exec(`${attack}`)).code).toBe(0)
      expect((await exec('echo added')).code).toBe(0)
      expect(await readFile(outputFile, 'utf8')).toBe('added\n')
      await sandbox.kill()
    },
  },
]
