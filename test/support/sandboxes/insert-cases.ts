import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect } from 'vitest'
import { SandboxUnavailable, type SandboxUpload } from '../../../src/sandboxes/sandbox.ts'
import { type RawEntry, tar } from '../harbor/raw-tar.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { hostileEntries } from './hostile-entries.ts'

const insert = (target: string, ...entries: RawEntry[]): SandboxUpload => ({
  target,
  tar: Readable.from([tar(...entries)]),
})

function refusal(error: unknown): string {
  expect(error).toBeInstanceOf(SandboxUnavailable)
  return ''
}

export const insertCases: ConformanceCase[] = [
  {
    name: 'uploads: files keep their modes, folders are created, and existing files are replaced',
    run: async (fixture) => {
      const files = insert(
        '/made/for/it',
        { name: './', type: '5', mode: 0o755 },
        { name: 'plain', content: 'one\n' },
        { name: 'deep/er/run.sh', content: '#!/bin/sh\necho ran\n', mode: 0o755 },
        { name: 'private', content: 'two\n', mode: 0o600 },
        { name: 'folder/', type: '5', mode: 0o750 },
        { name: 'folder/link', type: '2', target: '../plain' },
      )
      const over = insert('/etc', { name: 'debian_version', content: 'mine\n' }, { name: 'apt/new', content: '' })
      const script = `cd /made/for/it && stat -c '%a %u %n' plain deep/er/run.sh private folder && deep/er/run.sh
cat folder/link /etc/debian_version; ls -d /etc/apt/new /etc/apt/apt.conf.d`
      const { output } = await fixture.run(script, { uploads: [files, over] })
      expect(output).toBe(`644 0 plain
755 0 deep/er/run.sh
600 0 private
750 0 folder
ran
one
mine
/etc/apt/apt.conf.d
/etc/apt/new
`)
    },
  },
  {
    name: 'uploads: a later upload replaces files of an earlier one and of the base filesystem',
    run: async (fixture) => {
      const { sandbox } = await fixture.run('mkdir /app; echo seed > /app/a; echo seed > /app/b; echo seed > /app/c')
      const uploads = [
        insert('/app', { name: 'b', content: 'first\n' }, { name: 'c', content: 'first\n' }),
        insert('/app', { name: 'c', content: 'second\n' }),
      ]
      const baseFilesystem = { kind: 'workspace' as const, from: sandbox.stopped, paths: ['/app'] }
      expect((await fixture.run('cat /app/a /app/b /app/c', { baseFilesystem, uploads })).output).toBe(
        'seed\nfirst\nsecond\n',
      )
    },
  },
  {
    name: 'uploads: files collected from one sandbox can be uploaded to another',
    run: async (fixture) => {
      const { sandbox } = await fixture.run(`mkdir -p /w/sub; echo odd > '/w/sub/a b\\c'; ln -s sub /w/link`)
      const found = await sandbox.stopped.collect('/w', { files: 100, bytes: 1e6 })
      if (found === undefined) throw new Error('Nothing was collected.')
      const uploads = [{ target: '/', tar: found.tar }]
      expect((await fixture.run(`cat '/w/link/a b\\c'`, { uploads })).output).toBe('odd\n')
    },
  },
  {
    name: 'uploads: a hostile archive is refused or harmless',
    run: async (fixture) => {
      const look = 'ls -d /escaped /*/escaped; find /made ! -type d ! -type f ! -type l; find /made -perm /6000'
      for (const [what, entries] of Object.entries(hostileEntries)) {
        const ran = fixture.run(`(${look}) 2> /dev/null`, { uploads: [insert('/made/below', ...entries)] })
        const output = await ran.then((done) => done.output, refusal)
        expect(output, what).toBe('')
      }
    },
  },
  {
    name: 'uploads: links of the image do not lead to this machine',
    run: async (fixture) => {
      const folder = await fixture.folder()
      await writeFile(join(folder, 'file'), 'of the machine')
      const { sandbox } = await fixture.run(`ln -s ${folder} /link; mkdir /app; ln -s ${folder}/file /app/file`)
      const baseFilesystem = { kind: 'snapshot' as const, from: sandbox.stopped, without: [] }
      // Refused, or written to a place of the sandbox that has the same name.
      for (const target of ['/link', '/link/below']) {
        await fixture
          .run('true', { baseFilesystem, uploads: [insert(target, { name: 'new', content: 'x' })] })
          .catch(() => {})
      }
      const replaced = await fixture.run('cat /app/file', {
        baseFilesystem,
        uploads: [insert('/app', { name: 'file', content: 'replaced' })],
      })
      expect(replaced.output).toBe('replaced')
      expect(await readdir(folder)).toEqual(['file'])
      expect(await readFile(join(folder, 'file'), 'utf8')).toBe('of the machine')
    },
  },
]
