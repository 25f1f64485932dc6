import { expect, test } from 'vitest'
import type { FileChange } from '../sandboxes/sandbox.ts'
import { isSystemFolder, listCarriedPaths, listStartupFilesIn } from './base-filesystem.ts'

async function* changes(...listed: string[]): AsyncGenerator<FileChange> {
  for (const line of listed) {
    const [kind, path = ''] = line.split(' ') as [FileChange['kind'], string]
    yield { kind, path }
  }
}

test('changed files are carried one by one, new folders as a whole', async () => {
  const listed = [
    'file /srv/a',
    'deleted /etc/motd',
    'folder /srv/site',
    'file /srv/site/x',
    'file /app/work',
    'file /srv/a',
  ]
  expect(await listCarriedPaths(changes(...listed), '/app')).toEqual(['/etc/motd', '/srv/a', '/srv/site'])
})

test.each([
  '/etc/passwd',
  '/etc/shadow-',
  '/usr/local/bin/cat',
  '/usr/local/lib/python3.12/dist-packages/x.py',
  '/etc/ld.so.preload',
  '/root/.config/git/config',
  '/tests/test.sh',
  '/logs/verifier/reward.txt',
  '/dev/shm/x',
  '/app/file',
])('%s is not carried even when the solution changed it', async (path) => {
  expect(await listCarriedPaths(changes(`file ${path}`), '/app')).toEqual([])
})

test('a new folder above a path that is never carried is carried in its other parts only', async () => {
  const listed = ['folder /usr/local', 'folder /usr/local/bin', 'file /usr/local/bin/cat', 'file /usr/local/notes']
  expect(await listCarriedPaths(changes(...listed), '/app')).toEqual(['/usr/local/notes'])
})

test('unreadable names are not carried, and too many paths are refused', async () => {
  const unreadable = (async function* () {
    yield { kind: 'file' as const, path: '/srv/\uFFFD', isUnreadable: true as const }
  })()
  expect(await listCarriedPaths(unreadable, '/app')).toEqual([])
  expect(
    await listCarriedPaths(changes(...Array.from({ length: 501 }, (_, n) => `file /srv/${n}`)), '/app'),
  ).toBeUndefined()
})

test.each(['/', '/etc', '/usr', '/usr/local', '/usr/local/lib/x', '/bin', '/lib64', '/opt', '/var', '/tests'])(
  '%s is a system folder: as a working directory only the paths of the solution are carried',
  async (folder) => {
    expect(isSystemFolder(folder)).toBe(true)
    expect(await listCarriedPaths(changes('file /usr/local/share/x', 'file /etc/ld.so.preload'), folder)).toEqual([
      '/usr/local/share/x',
    ])
  },
)

test.each(['/app', '/root', '/home/dev', '/srv', '/usr/src/app', '/opt/app', '/var/www', '/etc/nginx'])(
  '%s is carried as a whole when it is the working directory',
  (folder) => expect(isSystemFolder(folder)).toBe(false),
)

test('startup files that the solution changes in the submission are found', async () => {
  const listed = [
    'file /home/dev/.bashrc',
    'file /home/dev/.config/fish/config.fish',
    'file /home/dev/x',
    'file /srv/.profile',
  ]
  expect(await listStartupFilesIn(changes(...listed), ['/home/dev'])).toEqual([
    '/home/dev/.bashrc',
    '/home/dev/.config/fish/config.fish',
  ])
})
