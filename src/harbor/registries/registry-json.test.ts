import { randomBytes } from 'node:crypto'
import { existsSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Registry } from './registry.ts'
import { registryJson } from './registry-json.ts'
import { commitBomb, commitFiles, type GitServer, startGitServer } from './testing/git-server.ts'
import { filesOf, writeTask } from './testing/subjects.ts'
import { openWorkbench, type Workbench } from './testing/workbench.ts'

let bench: Workbench
let server: GitServer
let registry: Registry
beforeEach(async () => {
  bench = await openWorkbench()
  server = await startGitServer(bench.folder)
  const location = `${server.url}/registry.json`
  registry = registryJson({ name: location, location, ...bench })
})
afterEach(async () => {
  await server[Symbol.asyncDispose]()
  await bench[Symbol.asyncDispose]()
})

const COMMIT = 'a'.repeat(40)
type Listed = { name: string; git_url?: string | null; git_commit_id?: string | null; path: string }
const entry = (tasks: Listed[], version = '1.0', name = 'lab/d') => ({ name, version, description: '', tasks })
const list = (...entries: unknown[]) => server.pages.set('/registry.json', JSON.stringify(entries))
const remote = (name: string, wish: Partial<Listed> = {}): Listed => ({
  ...{ name, git_url: `${server.url}/repository/.git`, git_commit_id: COMMIT, path: `tasks/${name}` },
  ...wish,
})
const under = (folder: string, name: string) =>
  filesOf(name).map(([path, text]) => [`${folder}/${path}`, text] as const)

test('a name without organisation is found as registry/name, and the newest version is the latest', async () => {
  list(...['1.9', '1.10', '1.10rc1', 'old'].map((version) => entry([remote('a')], version, 'bench')))

  expect((await bench.found(registry, 'registry/bench')).resolvedRef).toBe('1.10')
  expect((await bench.found(registry, 'registry/bench@old')).resolvedRef).toBe('old')
  expect(await bench.resolve(registry, 'lab/bench')).toEqual({ kind: 'unknown' })
})

test('head goes before any number, and a version may be a number', async () => {
  list(entry([remote('a')], '2'), entry([remote('a')], 'head'))

  expect((await bench.found(registry, 'lab/d')).resolvedRef).toBe('head')
  expect((await bench.found(registry, 'lab/d@2')).resolvedRef).toBe('2')
})

test('tasks of one commit share one clone, and only their files are fetched', async () => {
  const unneeded = randomBytes(3_000_000).toString('base64')
  const commit = commitFiles(join(bench.folder, 'repository'), [
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

  expect(await bench.download(registry, await bench.found(registry, 'lab/d'))).toMatchObject({ kind: 'downloaded' })

  expect(server.bytes()).toBeLessThan(100_000)
  // One for the commit, one for the contents of all its tasks, each with its greeting.
  expect(server.requests.filter((each) => each.startsWith('POST')).length).toBeLessThanOrEqual(4)
  expect(await bench.leftovers()).toEqual([])
})

test('an old commit is downloaded as it was', async () => {
  const repository = join(bench.folder, 'repository')
  const commit = commitFiles(repository, under('tasks/a', 'lab/a'))
  list(entry([remote('lab/a', { git_commit_id: commit, path: 'tasks/a' })]))
  const first = await bench.download(registry, await bench.found(registry, 'lab/d'))
  commitFiles(repository, [['tasks/a/instruction.md', 'Something else.\n']])

  const second = await bench.download(registry, await bench.found(registry, 'lab/d'), { reuse: false })

  expect(second).toEqual(first)
})

test('nothing of a repository is run, and its settings do not count', async () => {
  const proof = join(bench.folder, 'proof')
  const repository = join(bench.folder, 'repository')
  const commit = commitFiles(repository, [
    ...under('tasks/a', 'lab/a'),
    ['.gitattributes', '* filter=evil diff=evil\n'],
    ['.gitmodules', `[submodule "x"]\n\tpath = tasks/a/x\n\turl = ext::sh -c touch% ${proof}\n`],
    ['.gitconfig', `[filter "evil"]\n\tsmudge = touch ${proof}\n[core]\n\tfsmonitor = touch ${proof}\n`],
    ['hooks/post-checkout', `#!/bin/sh\ntouch ${proof}\n`],
  ])
  list(entry([remote('lab/a', { git_commit_id: commit, path: 'tasks/a' })]))

  expect(await bench.download(registry, await bench.found(registry, 'lab/d'))).toMatchObject({ kind: 'downloaded' })
  expect(existsSync(proof)).toBe(false)
})

test('a link in a repository does not lead out of it', async () => {
  const outside = join(bench.folder, 'outside')
  await writeTask(outside, 'lab/secret')
  const commit = commitFiles(join(bench.folder, 'repository'), under('tasks/a', 'lab/a'), () => {
    symlinkSync(outside, join(bench.folder, 'repository/tasks/out'))
    writeFileSync(join(bench.folder, 'repository/tasks/a/tests/extra'), '')
    symlinkSync('/etc/passwd', join(bench.folder, 'repository/tasks/a/tests/passwd'))
  })
  list(
    entry([
      remote('lab/out', { git_commit_id: commit, path: 'tasks/out' }),
      remote('lab/a', { git_commit_id: commit, path: 'tasks/a' }),
      remote('lab/git', { git_commit_id: commit, path: '.git' }),
    ]),
  )

  const result = await bench.download(registry, await bench.found(registry, 'lab/d'))

  if (result.kind !== 'refused') throw new Error(JSON.stringify(result))
  const faults = result.faults.map(({ task, reason }) => `${task} ${reason}`)
  expect(faults.toSorted()).toEqual(['lab/a not_a_task', 'lab/git missing', 'lab/out missing'])
  expect(bench.index.size).toBe(0)
})

test('a tree that unfolds to ten billion names ends git', async () => {
  const commit = commitBomb(join(bench.folder, 'repository'))
  const location = `${server.url}/registry.json`
  const small = registryJson({ ...bench, name: location, location, gitMemoryKib: 512 * 1024 })
  list(entry([remote('lab/a', { git_commit_id: commit, path: 'tasks/a' })]))

  const result = await bench.download(small, await bench.found(small, 'lab/d'))

  expect(result).toMatchObject({ kind: 'refused', faults: [{ task: 'lab/a', reason: 'archive_refused' }] })
  expect(await bench.leftovers()).toEqual([])
})

test('a commit or a folder that is not there', async () => {
  const commit = commitFiles(join(bench.folder, 'repository'), under('tasks/a', 'lab/a'))
  list(entry([remote('lab/a'), remote('lab/b', { git_commit_id: commit, path: 'tasks/b' })]))

  const result = await bench.download(registry, await bench.found(registry, 'lab/d'))

  expect(result).toMatchObject({ kind: 'refused', faults: [{ reason: 'missing' }, { reason: 'missing' }] })
})

test('a repository that is not there is tried again, and then the registry is unavailable', async () => {
  list(entry([remote('lab/a', { git_url: `${server.url}/nobody` })]))

  const result = bench.download(registry, await bench.found(registry, 'lab/d'))

  await expect(result).rejects.toMatchObject({ name: 'RegistryUnavailable' })
  expect(bench.pauses).toHaveLength(3)
  expect(await bench.leftovers()).toEqual([])
})

test('git does not follow redirects', async () => {
  await using elsewhere = await startGitServer(bench.folder)
  const commit = commitFiles(join(bench.folder, 'repository'), under('tasks/a', 'lab/a'))
  server.pages.set('/moved/info/refs?service=git-upload-pack', (response) =>
    response.writeHead(302, { location: `${elsewhere.url}/repository/.git/info/refs?service=git-upload-pack` }).end(),
  )
  list(entry([remote('lab/a', { git_url: `${server.url}/moved`, git_commit_id: commit })]))

  await expect(bench.download(registry, await bench.found(registry, 'lab/d'))).rejects.toThrow('git could not read')
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
])('a task with %s is refused before anything is fetched', async (_, wish) => {
  list(entry([remote('lab/a', wish)]))

  expect(await bench.resolve(registry, 'lab/d')).toMatchObject({ kind: 'invalid' })
  expect(server.requests).toEqual(['GET /registry.json'])
})

test('a public name that leads to a private address is refused', async () => {
  const options = { name: 'r', location: `${server.url}/registry.json`, ...bench }
  const fooled = registryJson({ ...options, resolveName: async () => ['93.184.216.34', '10.0.0.1'] })
  list(entry([remote('lab/a', { git_url: 'https://git.example.org/a' })]))

  await expect(bench.download(fooled, await bench.found(fooled, 'lab/d'))).rejects.toMatchObject({
    name: 'RegistryUnavailable',
    isLasting: true,
  })
  expect(bench.pauses).toEqual([])
})

test('a file may list tasks that lie beside it, and no others', async () => {
  const folder = join(bench.folder, 'listed')
  await mkdir(folder)
  await writeTask(join(folder, 'tasks/a'), 'lab/a')
  await writeTask(join(bench.folder, 'outside'), 'lab/b')
  symlinkSync(join(bench.folder, 'outside'), join(folder, 'out'))
  const location = join(folder, 'registry.json')
  const local = registryJson({ ...bench, name: location, location })
  const tasks = [
    { name: 'lab/a', path: 'tasks/a' },
    { name: 'lab/b', path: 'out' },
  ]
  await writeFile(location, JSON.stringify([entry(tasks.slice(0, 1)), entry(tasks, '2')]))

  expect(await bench.download(local, await bench.found(local, 'lab/d@1.0'))).toMatchObject({ kind: 'downloaded' })
  expect(await bench.download(local, await bench.found(local, 'lab/d@2'))).toMatchObject({
    kind: 'refused',
    faults: [{ task: 'lab/b', reason: 'missing' }],
  })
})

test.each(['', '{}', '[{"name": 1}]', 'null'])('a list that is none: %s', async (text) => {
  server.pages.set('/registry.json', text)
  await expect(bench.resolve(registry, 'lab/d')).rejects.toMatchObject({ name: 'RegistryUnavailable', isLasting: true })

  const location = join(bench.folder, 'nowhere.json')
  const missing = registryJson({ ...bench, name: location, location })
  await expect(bench.resolve(missing, 'lab/d')).rejects.toMatchObject({ isLasting: true })
})
