import { mkdir, readdir, readFile, readlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, vi } from 'vitest'
import { COLLECT_DEPTH_MAX } from '../../../src/sandboxes/kernel/collect.ts'
import { collected } from './case-context.ts'
import type { ConformanceCase } from './conformance-case.ts'

/** File types that a file system can hold and an archive should not. */
const TRAPS = `mkdir -p /w/sub /w/empty && cd /w && echo one > file && echo two > sub/deep && chmod 755 sub/deep
ln -s file inside; ln -s ../file sub/up; ln -s sub/deep chain
ln -s /etc/passwd absolute; ln -s ../../etc/passwd leaves; ln -s / root; ln -s ../w/file around
mkfifo fifo; cp /bin/true suid; chmod 4755 suid; ln file hard
perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un("/w/socket"))'`

/** Lists open files of this process that have been deleted. */
async function openNameless(): Promise<string[]> {
  const links = await Promise.all(
    (await readdir('/proc/self/fd')).map((name) => readlink(`/proc/self/fd/${name}`).catch(() => '')),
  )
  return links.filter((link) => link.endsWith(' (deleted)')).sort()
}

export const fileCases: ConformanceCase[] = [
  {
    name: 'collecting a missing path leaves no file open',
    run: async (fixture) => {
      const { sandbox } = await fixture.run('true')
      const before = await openNameless()
      expect(await sandbox.stopped.collect('/no/such', { files: 10, bytes: 1000 })).toBeUndefined()
      expect(await sandbox.stopped.collect('/nothing', { files: 10, bytes: 1000 })).toBeUndefined()
      await vi.waitFor(async () => expect(await openNameless()).toEqual(before), 30_000)
    },
  },
  {
    name: 'a read-only mount can be read but not changed',
    run: async (fixture) => {
      const folder = await fixture.folder()
      await writeFile(join(folder, 'file'), 'kept')
      const mounts = [{ kind: 'folder' as const, source: folder, target: '/given', readOnly: true }]
      const script =
        'cat /given/file; (echo x > /given/file; rm -f /given/file; touch /given/new; chmod 777 /given) 2> /dev/null; mount -o remount,rw /given 2> /dev/null; true'
      expect((await fixture.run(script, { mounts })).output).toBe('kept')
      expect(await readFile(join(folder, 'file'), 'utf8')).toBe('kept')
    },
  },
  {
    name: 'files written to a writable mount remain',
    run: async (fixture) => {
      const folder = await fixture.folder()
      const mounts = [{ kind: 'folder' as const, source: folder, target: '/logs/verifier', readOnly: false }]
      await fixture.run('echo 1 > /logs/verifier/reward.txt', { mounts })
      expect(await readFile(join(folder, 'reward.txt'), 'utf8')).toBe('1\n')
    },
  },
  {
    name: 'a mount below folders that the image lacks is accessible to every user',
    run: async (fixture) => {
      const source = await fixture.folder()
      const mounts = [{ kind: 'folder' as const, source, target: '/not/there/yet', readOnly: false }]
      expect((await fixture.run('stat -c %a /not /not/there', { mounts })).output).toBe('755\n755\n')
    },
  },
  {
    name: 'files nested deeper than the maximum path length are removed with their sandbox',
    run: async (fixture) => {
      const script = `perl -e 'my $d = "0123456789" x 20; for (1 .. 30) { mkdir $d and chdir $d or die } print "deep\\n"'`
      const { sandbox, output } = await fixture.run(script)
      expect(output).toBe('deep\n')
      await sandbox.remove()
      expect(await fixture.subject.leftovers(sandbox.id)).toEqual([])
    },
  },
  {
    name: 'a tmpfs mount starts empty, is limited in size and leaves nothing behind',
    run: async (fixture) => {
      const mounts = [{ kind: 'tmpfs' as const, target: '/etc/apt', sizeMb: 4 }]
      const script =
        'ls -A /etc/apt; stat -f -c %T /etc/apt; head -c 2M /dev/zero > /etc/apt/fits && echo fits; head -c 8M /dev/zero > /etc/apt/more 2> /dev/null || echo full'
      const { sandbox, output } = await fixture.run(script, { mounts })
      expect(output).toBe('tmpfs\nfits\nfull\n')
      expect((await collected(sandbox.stopped, '/etc/apt/fits'))?.entries).toBeUndefined()
      const unlimited = await fixture.run('stat -f -c %T /new', {
        mounts: [{ kind: 'tmpfs', target: '/new', sizeMb: null }],
      })
      expect(unlimited.output).toBe('tmpfs\n')
    },
  },
  {
    name: 'collect returns files, folders and links that stay inside, and lists what it leaves out',
    run: async (fixture) => {
      const { sandbox } = await fixture.run(TRAPS)
      const found = await collected(sandbox.stopped, '/w')
      expect(found?.entries.map(({ path, type }) => `${type} ${path.replace(/\/$/, '')}`)).toEqual([
        'Directory w',
        'SymbolicLink w/chain',
        'Directory w/empty',
        'File w/file',
        'File w/hard',
        'SymbolicLink w/inside',
        'Directory w/sub',
        'File w/sub/deep',
        'SymbolicLink w/sub/up',
        'File w/suid',
      ])
      expect(found?.leftOut).toEqual(['w/absolute', 'w/around', 'w/fifo', 'w/leaves', 'w/root', 'w/socket'])
      const mode = (path: string) => found?.entries.find((entry) => entry.path === path)?.mode
      expect([mode('w/suid'), mode('w/sub/deep'), mode('w/file')]).toEqual([0o755, 0o755, 0o644])
      expect(found?.entries.find(({ path }) => path === 'w/file')?.content).toBe('one\n')
    },
  },
  {
    name: 'collect returns a single file, also of the image, and reports a missing path',
    run: async (fixture) => {
      const { sandbox } = await fixture.run('echo mine > /etc/mine; rm /etc/debian_version')
      expect((await collected(sandbox.stopped, '/etc/mine'))?.entries).toMatchObject([
        { path: 'mine', type: 'File', content: 'mine\n' },
      ])
      expect((await collected(sandbox.stopped, '/etc/hostname/no'))?.entries).toBeUndefined()
      expect(await collected(sandbox.stopped, '/etc/debian_version')).toBeUndefined()
      expect((await collected(sandbox.stopped, '/etc/os-release'))?.leftOut).toEqual(['os-release'])
      expect((await collected(sandbox.stopped, '/usr/lib/os-release'))?.entries).toHaveLength(1)
    },
  },
  {
    name: 'collect does not follow a link in the requested path',
    run: async (fixture) => {
      const folder = await fixture.folder()
      await mkdir(join(folder, 'inner'))
      await writeFile(join(folder, 'inner', 'file'), 'of the machine')
      const { sandbox } = await fixture.run(`ln -s ${folder} /w; ln -s / /r`)
      expect((await collected(sandbox.stopped, '/w'))?.entries ?? []).toEqual([])
      expect(await collected(sandbox.stopped, '/w/inner/file')).toBeUndefined()
      expect(await collected(sandbox.stopped, `/r${folder}/inner/file`)).toBeUndefined()
      expect(await collected(sandbox.stopped, `/../..${folder}/inner/file`)).toBeUndefined()
    },
  },
  {
    name: 'collect leaves out folders that are nested too deeply and returns the others',
    run: async (fixture) => {
      const script = `mkdir -p /w/z; echo kept > /w/z/file; cd /w; perl -e 'for (1 .. 3000) { mkdir "d" and chdir "d" or die }'`
      const { sandbox } = await fixture.run(script)
      const found = await collected(sandbox.stopped, '/w')
      const paths = found?.entries.map(({ path }) => path.replace(/\/$/, '')) ?? []
      expect(paths).toContain('w/z/file')
      expect(paths.length).toBe(COLLECT_DEPTH_MAX + 2)
      expect(found?.leftOut).toEqual([`w${'/d'.repeat(COLLECT_DEPTH_MAX)}`])
    },
  },
  {
    name: 'collect stops at its limits',
    run: async (fixture) => {
      const { sandbox } = await fixture.run(
        'mkdir /w; for i in $(seq 50); do echo $i > /w/$i; done; truncate -s 5G /w/sparse',
      )
      const few = await collected(sandbox.stopped, '/w', { files: 10, bytes: 1e6 })
      expect(few?.entries.length).toBeLessThanOrEqual(10)
      const small = await collected(sandbox.stopped, '/w', { files: 1000, bytes: 1e6 })
      expect(small?.leftOut).toContain('w/sparse')
    },
  },
]
