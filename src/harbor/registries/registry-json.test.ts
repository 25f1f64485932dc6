import { randomBytes } from 'node:crypto'
import { existsSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDownloadFixture, type DownloadFixture } from '../../../test/support/harbor/download-fixture.ts'
import { commitBomb, commitFiles, type GitServer, startGitServer } from '../../../test/support/harbor/git-server.ts'
import { listTaskFiles, writeTask } from '../../../test/support/harbor/registry-fixtures.ts'
import type { Registry } from './registry.ts'
import { openRegistryJson } from './registry-json.ts'

let fixture: DownloadFixture
let server: GitServer
let registry: Registry
beforeEach(async () => {
  fixture = await createDownloadFixture()
  server = await startGitServer(fixture.folder)
  const location = `${server.url}/registry.json`
  registry = openRegistryJson({ name: location, location, ...fixture })
})
afterEach(async () => {
  await server[Symbol.asyncDispose]()
  await fixture[Symbol.asyncDispose]()
})

const COMMIT = 'a'.repeat(40)
type Listed = { name: string; git_url?: string | null; git_commit_id?: string | null; path: string }
const entry = (tasks: Listed[], version = '1.0', name = 'lab/d') => ({ name, version, description: '', tasks })
const list = (...entries: unknown[]) => server.pages.set('/registry.json', JSON.stringify(entries))
const remote = (name: string, change: Partial<Listed> = {}): Listed => ({
  name,
  git_url: `${server.url}/repository/.git`,
  git_commit_id: COMMIT,
  path: `tasks/${name}`,
  ...change,
})
const under = (folder: string, name: string) =>
  listTaskFiles(name).map(([path, text]) => [`${folder}/${path}`, text] as const)

test('finds a name without organisation as registry/name and resolves latest to the newest version', async () => {
  list(...['1.9', '1.10', '1.10rc1', 'old'].map((version) => entry([remote('a')], version, 'fixture')))

  expect((await fixture.resolveDataset(registry, 'registry/fixture')).resolvedRef).toBe('1.10')
  expect((await fixture.resolveDataset(registry, 'registry/fixture@old')).resolvedRef).toBe('old')
  expect(await fixture.resolve(registry, 'lab/fixture')).toEqual({ kind: 'unknown' })
})

test('prefers head over version numbers, and accepts a number as version', async () => {
  list(entry([remote('a')], '2'), entry([remote('a')], 'head'))

  expect((await fixture.resolveDataset(registry, 'lab/d')).resolvedRef).toBe('head')
  expect((await fixture.resolveDataset(registry, 'lab/d@2')).resolvedRef).toBe('2')
})

test('clones a commit once for all its tasks and fetches only their files', async () => {
  const unneeded = randomBytes(3_000_000).toString('base64')
  const commit = commitFiles(join(fixture.folder, 'repository'), [
    ...under('tasks/a', 'lab/a'),
    ...under('tasks/odd [name]', 'lab/b'),
    ['huge.bin', unneeded],
  ])
  list(
    entry([
      remote('lab/a', { git_commit_id: commit, path: 'tasks/a' }),
      remote('lab/b', { git_commit_id: commit, path: './tasks/odd [name]/' }),
    ]),
  )

  expect(await fixture.download(registry, await fixture.resolveDataset(registry, 'lab/d'))).toMatchObject({
    kind: 'downloaded',
  })

  expect(server.bytes()).toBeLessThan(100_000)
  // Two fetches, one for the commit and one for the file contents, each with its handshake.
  expect(server.requests.filter((each) => each.startsWith('POST')).length).toBeLessThanOrEqual(4)
  expect(await fixture.leftovers()).toEqual([])
})

test('downloads an old commit unchanged', async () => {
  const repository = join(fixture.folder, 'repository')
  const commit = commitFiles(repository, under('tasks/a', 'lab/a'))
  list(entry([remote('lab/a', { git_commit_id: commit, path: 'tasks/a' })]))
  const first = await fixture.download(registry, await fixture.resolveDataset(registry, 'lab/d'))
  commitFiles(repository, [['tasks/a/instruction.md', 'Something else.\n']])

  const second = await fixture.download(registry, await fixture.resolveDataset(registry, 'lab/d'), { reuse: false })

  expect(second).toEqual(first)
})

test('runs no hooks of a repository and ignores its settings', async () => {
  const proof = join(fixture.folder, 'proof')
  const repository = join(fixture.folder, 'repository')
  const commit = commitFiles(repository, [
    ...under('tasks/a', 'lab/a'),
    ['.gitattributes', '* filter=evil diff=evil\n'],
    ['.gitmodules', `[submodule "x"]\n\tpath = tasks/a/x\n\turl = ext::sh -c touch% ${proof}\n`],
    ['.gitconfig', `[filter "evil"]\n\tsmudge = touch ${proof}\n[core]\n\tfsmonitor = touch ${proof}\n`],
    ['hooks/post-checkout', `#!/bin/sh\ntouch ${proof}\n`],
  ])
  list(entry([remote('lab/a', { git_commit_id: commit, path: 'tasks/a' })]))

  expect(await fixture.download(registry, await fixture.resolveDataset(registry, 'lab/d'))).toMatchObject({
    kind: 'downloaded',
  })
  expect(existsSync(proof)).toBe(false)
})

test('refuses a link that leads out of the repository', async () => {
  const outside = join(fixture.folder, 'outside')
  await writeTask(outside, 'lab/secret')
  const commit = commitFiles(join(fixture.folder, 'repository'), under('tasks/a', 'lab/a'), () => {
    symlinkSync(outside, join(fixture.folder, 'repository/tasks/out'))
    writeFileSync(join(fixture.folder, 'repository/tasks/a/tests/extra'), '')
    symlinkSync('/etc/passwd', join(fixture.folder, 'repository/tasks/a/tests/passwd'))
  })
  list(
    entry([
      remote('lab/out', { git_commit_id: commit, path: 'tasks/out' }),
      remote('lab/a', { git_commit_id: commit, path: 'tasks/a' }),
      remote('lab/git', { git_commit_id: commit, path: '.git' }),
    ]),
  )

  const result = await fixture.download(registry, await fixture.resolveDataset(registry, 'lab/d'))

  if (result.kind !== 'refused') throw new Error(JSON.stringify(result))
  const faults = result.faults.map(({ task, reason }) => `${task} ${reason}`)
  expect(faults.toSorted()).toEqual(['lab/a not_a_task', 'lab/git missing', 'lab/out missing'])
  expect(fixture.index.size).toBe(0)
})

test('stops git at a tree that expands to ten billion files', async () => {
  const commit = commitBomb(join(fixture.folder, 'repository'))
  const location = `${server.url}/registry.json`
  const small = openRegistryJson({ ...fixture, name: location, location, gitMemoryKib: 512 * 1024 })
  list(entry([remote('lab/a', { git_commit_id: commit, path: 'tasks/a' })]))

  const result = await fixture.download(small, await fixture.resolveDataset(small, 'lab/d'))

  expect(result).toMatchObject({ kind: 'refused', faults: [{ task: 'lab/a', reason: 'archive_refused' }] })
  expect(await fixture.leftovers()).toEqual([])
})

test('reports a missing commit or folder', async () => {
  const commit = commitFiles(join(fixture.folder, 'repository'), under('tasks/a', 'lab/a'))
  list(entry([remote('lab/a'), remote('lab/b', { git_commit_id: commit, path: 'tasks/b' })]))

  const result = await fixture.download(registry, await fixture.resolveDataset(registry, 'lab/d'))

  expect(result).toMatchObject({ kind: 'refused', faults: [{ reason: 'missing' }, { reason: 'missing' }] })
})

test('retries a missing repository and then reports the registry as unavailable', async () => {
  list(entry([remote('lab/a', { git_url: `${server.url}/nobody` })]))

  const result = fixture.download(registry, await fixture.resolveDataset(registry, 'lab/d'))

  await expect(result).rejects.toMatchObject({ name: 'RegistryUnavailable' })
  expect(fixture.pauses).toHaveLength(3)
  expect(await fixture.leftovers()).toEqual([])
})

test('git does not follow redirects', async () => {
  await using elsewhere = await startGitServer(fixture.folder)
  const commit = commitFiles(join(fixture.folder, 'repository'), under('tasks/a', 'lab/a'))
  server.pages.set('/moved/info/refs?service=git-upload-pack', (response) =>
    response.writeHead(302, { location: `${elsewhere.url}/repository/.git/info/refs?service=git-upload-pack` }).end(),
  )
  list(entry([remote('lab/a', { git_url: `${server.url}/moved`, git_commit_id: commit })]))

  await expect(fixture.download(registry, await fixture.resolveDataset(registry, 'lab/d'))).rejects.toThrow(
    'git could not read',
  )
  expect(elsewhere.requests).toEqual([])
})

test.each<[string, Partial<Listed>]>([
  ['a program', { git_url: 'ext::sh -c id' }],
  ['an option', { git_url: '--upload-pack=id' }],
  ['a local path', { git_url: '/etc' }],
  ['a file URL', { git_url: 'file:///etc' }],
  ['no https', { git_url: 'http://github.com/a/b' }],
  ['a private address', { git_url: 'https://169.254.169.254/a' }],
  ['a password', { git_url: 'https://user:secret@github.com/a/b' }],
  ['a branch instead of a commit', { git_commit_id: 'main' }],
  ['half a commit', { git_commit_id: 'abcdef1' }],
  ['no commit', { git_commit_id: null }],
  ['a path that leads out', { path: '../tasks' }],
  ['an absolute path', { path: '/etc' }],
  ['no git_url where there is no folder', { git_url: null }],
  ['a bad name', { name: 'a/b/c' }],
])('refuses a task with %s before fetching anything', async (_, change) => {
  list(entry([remote('lab/a', change)]))

  expect(await fixture.resolve(registry, 'lab/d')).toMatchObject({ kind: 'invalid' })
  expect(server.requests).toEqual(['GET /registry.json'])
})

test('refuses a public name that resolves to a private address', async () => {
  const options = { name: 'r', location: `${server.url}/registry.json`, ...fixture }
  const fooled = openRegistryJson({ ...options, resolveName: async () => ['93.184.216.34', '10.0.0.1'] })
  list(entry([remote('lab/a', { git_url: 'https://git.example.org/a' })]))

  await expect(fixture.download(fooled, await fixture.resolveDataset(fooled, 'lab/d'))).rejects.toMatchObject({
    name: 'RegistryUnavailable',
    isPermanent: true,
  })
  expect(fixture.pauses).toEqual([])
})

test('allows a registry.json file to list tasks in its folder and no others', async () => {
  const folder = join(fixture.folder, 'listed')
  await mkdir(folder)
  await writeTask(join(folder, 'tasks/a'), 'lab/a')
  await writeTask(join(fixture.folder, 'outside'), 'lab/b')
  symlinkSync(join(fixture.folder, 'outside'), join(folder, 'out'))
  const location = join(folder, 'registry.json')
  const local = openRegistryJson({ ...fixture, name: location, location })
  const tasks = [
    { name: 'lab/a', path: 'tasks/a' },
    { name: 'lab/b', path: 'out' },
  ]
  await writeFile(location, JSON.stringify([entry(tasks.slice(0, 1)), entry(tasks, '2')]))

  expect(await fixture.download(local, await fixture.resolveDataset(local, 'lab/d@1.0'))).toMatchObject({
    kind: 'downloaded',
  })
  expect(await fixture.download(local, await fixture.resolveDataset(local, 'lab/d@2'))).toMatchObject({
    kind: 'refused',
    faults: [{ task: 'lab/b', reason: 'missing' }],
  })
})

test.each(['', '{}', '[{"name": 1}]', 'null'])('rejects an invalid list: %s', async (text) => {
  server.pages.set('/registry.json', text)
  await expect(fixture.resolve(registry, 'lab/d')).rejects.toMatchObject({
    name: 'RegistryUnavailable',
    isPermanent: true,
  })

  const location = join(fixture.folder, 'nowhere.json')
  const missing = openRegistryJson({ ...fixture, name: location, location })
  await expect(fixture.resolve(missing, 'lab/d')).rejects.toMatchObject({ isPermanent: true })
})
