import { expect } from 'vitest'
import { collected } from './case-context.ts'
import type { ConformanceCase } from './conformance-case.ts'

const CHANGES = `mkdir -p /app/kept && echo work > /app/kept/file && echo out > /outside && echo x > /usr/local/bin/tool
chmod +x /usr/local/bin/tool; rm /etc/debian_version; rm -r /opt; ln -s /etc/passwd /app/leaves; mkfifo /app/fifo
mkdir -p /tests && echo planted > /tests/conftest.py; rm -r /srv; mkdir /srv; echo new > /srv/new`

const LOOK =
  'cd /; for f in app/kept/file app/leaves app/fifo outside usr/local/bin/tool etc/debian_version opt tests/conftest.py srv/new; do if [ -e $f ] || [ -L $f ]; then echo $f; fi; done'

export const seedCases: ConformanceCase[] = [
  {
    name: 'a workspace base has the given folders of the earlier sandbox, filtered, and nothing else of it',
    run: async (fixture) => {
      const { sandbox } = await fixture.run(CHANGES)
      const baseFilesystem = { kind: 'workspace' as const, from: sandbox.stopped, paths: ['/app', '/srv'] }
      const { output } = await fixture.run(LOOK, { baseFilesystem })
      expect(output.split('\n').filter(Boolean)).toEqual(['app/kept/file', 'etc/debian_version', 'opt', 'srv/new'])
    },
  },
  {
    name: 'a workspace base leaves out the excluded paths, and nothing behind links',
    run: async (fixture) => {
      const { sandbox } = await fixture.run(
        'mkdir -p /app/a /app/gone /mine/b; echo x > /app/a/gone; echo y > /app/kept; echo w > /app/gone/in; echo z > /mine/b/kept; ln -s a /app/link; echo v > /app/a/kept',
      )
      const without = ['/app/a/gone', '/app/gone', '/app/link/kept', '/app/missing/file']
      for (const image of [fixture.subject.image, fixture.subject.otherImage]) {
        const baseFilesystem = { kind: 'workspace' as const, from: sandbox.stopped, paths: ['/app', '/mine'], without }
        const { output } = await fixture.run('find /app /mine -type f | sort; ls -d /app/gone', {
          baseFilesystem,
          image,
        })
        expect(output.replace(/^ls: .*\n/m, ''), image.digest).toBe('/app/a/kept\n/app/kept\n/mine/b/kept\n')
      }
    },
  },
  {
    name: 'a workspace base does not restore deleted files',
    run: async (fixture) => {
      const { sandbox } = await fixture.run(
        'rm /etc/apt/apt.conf.d/* /etc/debian_version; rm -r /var/lib/dpkg; mkdir -p /var/lib/dpkg; touch /var/lib/dpkg/new',
      )
      const baseFilesystem = { kind: 'workspace' as const, from: sandbox.stopped, paths: ['/etc/apt', '/var/lib/dpkg'] }
      const { output } = await fixture.run('ls /etc/apt/apt.conf.d /var/lib/dpkg; ls /etc/debian_version', {
        baseFilesystem,
      })
      expect(output).toBe('/etc/apt/apt.conf.d:\n\n/var/lib/dpkg:\nnew\n/etc/debian_version\n')
    },
  },
  {
    name: 'a workspace base of /etc works although the engine mounts files there',
    run: async (fixture) => {
      const { sandbox } = await fixture.run('echo mine > /etc/mine; rm /etc/debian_version; echo x >> /etc/hosts; true')
      const baseFilesystem = { kind: 'workspace' as const, from: sandbox.stopped, paths: ['/etc'] }
      const { output } = await fixture.run('cat /etc/mine; ls /etc/debian_version 2> /dev/null; id -un', {
        baseFilesystem,
      })
      expect(output).toBe('mine\nroot\n')
    },
  },
  {
    name: 'a workspace base of /etc works after its account files became links to themselves',
    run: async (fixture) => {
      const { sandbox } = await fixture.run(
        'cd /etc; for f in passwd group; do rm $f; ln -s $f $f; done; echo mine > mine',
      )
      const baseFilesystem = { kind: 'workspace' as const, from: sandbox.stopped, paths: ['/etc'] }
      const { output } = await fixture.run('cat /etc/mine', { baseFilesystem })
      expect(output).toBe('mine\n')
    },
  },
  {
    name: 'a workspace base of /etc works in a sandbox with a volume',
    run: async (fixture) => {
      const network = { sandboxNetwork: await fixture.openNetwork(), names: ['member'] }
      const mounts = [{ kind: 'volume' as const, name: 'data', target: '/data', readOnly: false }]
      const { sandbox } = await fixture.run('echo mine > /etc/mine; rm /etc/debian_version', { network, mounts })
      const baseFilesystem = { kind: 'workspace' as const, from: sandbox.stopped, paths: ['/etc'] }
      const { output } = await fixture.run('cat /etc/mine; ls /etc/debian_version 2> /dev/null', {
        baseFilesystem,
        network,
        mounts,
      })
      expect(output).toBe('mine\n')
    },
  },
  {
    name: 'a snapshot base has all changes except those under the given paths',
    run: async (fixture) => {
      const { sandbox } = await fixture.run(CHANGES)
      const baseFilesystem = {
        kind: 'snapshot' as const,
        from: sandbox.stopped,
        without: ['/tests', '/usr/local/bin', '/etc'],
      }
      const { output } = await fixture.run(`${LOOK}; ls /srv`, { baseFilesystem })
      expect(output.split('\n').filter(Boolean)).toEqual([
        ...['app/kept/file', 'app/leaves', 'app/fifo', 'outside', 'etc/debian_version', 'srv/new', 'new'],
      ])
    },
  },
  {
    name: 'changes of a later sandbox do not reach the earlier one, and can be collected and used as a base again',
    run: async (fixture) => {
      const { sandbox: first } = await fixture.run('mkdir /app; echo 1 > /app/file')
      const workspace = { kind: 'workspace' as const, from: first.stopped, paths: ['/app'] }
      const { sandbox: second } = await fixture.run('echo 2 >> /app/file; echo other > /app/other', {
        baseFilesystem: workspace,
      })
      const contents = async (remains: typeof first.stopped) =>
        (await collected(remains, '/app'))?.entries.map(({ content }) => content)
      expect(await contents(first.stopped)).toEqual(['', '1\n'])
      expect(await contents(second.stopped)).toEqual(['', '1\n2\n', 'other\n'])
      const snapshot = { kind: 'snapshot' as const, from: second.stopped, without: [] }
      const third = await fixture.run('cat /app/file /app/other; echo 3 > /app/third', { baseFilesystem: snapshot })
      expect(third.output).toBe('1\n2\nother\n')
      const again = { kind: 'snapshot' as const, from: third.sandbox.stopped, without: ['/app/other'] }
      expect((await fixture.run('ls /app', { baseFilesystem: again })).output).toBe('file\nthird\n')
    },
  },
  {
    name: 'a base filesystem keeps owners and modes',
    run: async (fixture) => {
      const { sandbox } = await fixture.run(
        'mkdir -m 750 /app; echo 1 > /app/file; chmod 640 /app/file; chown -R 33:34 /app',
      )
      const from = sandbox.stopped
      const script = 'stat -c "%u %g %a" /app /app/file'
      const workspace = await fixture.run(script, { baseFilesystem: { kind: 'workspace', from, paths: ['/app'] } })
      expect(workspace.output).toBe('33 34 750\n33 34 640\n')
      const snapshot = await fixture.run(script, { baseFilesystem: { kind: 'snapshot', from, without: [] } })
      expect(snapshot.output).toBe('33 34 750\n33 34 640\n')
    },
  },
  {
    name: 'a protected path comes from the image even if a folder above it was replaced',
    run: async (fixture) => {
      const attacks = [
        'mv /usr/local /usr/other; mkdir -p /usr/local/bin; echo x > /usr/local/bin/tool',
        'mkdir -p /evil/bin; echo x > /evil/bin/tool; rm -rf /usr/local; ln -s /evil /usr/local',
        'rm -rf /usr/local',
      ]
      for (const attack of attacks) {
        const { sandbox } = await fixture.run(attack)
        const baseFilesystem = { kind: 'snapshot' as const, from: sandbox.stopped, without: ['/usr/local/bin'] }
        const { output } = await fixture.run('ls -d /usr/local/bin; ls /usr/local/bin', { baseFilesystem })
        expect(output, attack).toBe('/usr/local/bin\n')
      }
    },
  },
  {
    name: 'a workspace base accepts single files and another image',
    run: async (fixture) => {
      const { sandbox } = await fixture.run(
        'mkdir -p /app/sub; echo kept > /app/sub/file; echo other > /app/other; echo 13 > /etc/debian_version; rm /etc/issue',
      )
      const paths = ['/app/sub/file', '/etc/debian_version', '/etc/issue', '/not/there']
      const script = 'cat /app/sub/file /etc/debian_version; ls /app/other /etc/issue /not /etc/issue.net 2> /dev/null'
      for (const image of [fixture.subject.image, fixture.subject.otherImage]) {
        const baseFilesystem = { kind: 'workspace' as const, from: sandbox.stopped, paths }
        expect((await fixture.run(script, { baseFilesystem, image })).output, image.digest).toBe(
          'kept\n13\n/etc/issue.net\n',
        )
      }
    },
  },
  {
    name: 'a workspace base on another image replaces an existing folder',
    run: async (fixture) => {
      const { sandbox } = await fixture.run('mkdir /mine; echo 1 > /mine/new; ln -s /etc/passwd /mine/leaves')
      const baseFilesystem = { kind: 'workspace' as const, from: sandbox.stopped, paths: ['/mine'] }
      const { output } = await fixture.run('ls -A /mine', { baseFilesystem, image: fixture.subject.otherImage })
      expect(output).toBe('new\n')
    },
  },
  {
    name: 'changes lists new, changed and deleted paths of a sandbox and of its base sandboxes',
    run: async (fixture) => {
      const { sandbox: first } = await fixture.run(
        'mkdir -p /srv/site/deep; echo 1 > /srv/site/deep/file; ln -s /etc /srv/site/link; echo x >> /etc/issue; rm /etc/debian_version',
      )
      const baseFilesystem = { kind: 'snapshot' as const, from: first.stopped, without: [] }
      const { sandbox } = await fixture.run('echo 2 > /srv/later; chmod 700 /opt', { baseFilesystem })
      const listed = new Set<string>()
      for await (const { path, kind } of sandbox.stopped.changes()) listed.add(`${kind} ${path}`)
      expect(
        [...listed].filter((text) => / \/(srv|etc|opt)/.test(text) && !/hosts|hostname|resolv|mtab/.test(text)).sort(),
      ).toEqual([
        'deleted /etc/debian_version',
        'file /etc/issue',
        'file /srv/later',
        'file /srv/site/deep/file',
        'file /srv/site/link',
        'folder /srv/site',
        'folder /srv/site/deep',
      ])
    },
  },
]
