import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startServer } from '../../../test/support/loopback-servers.ts'
import { commitTree, makeRepository } from '../../../test/support/taskgen/handmade-trees.ts'
import { runGit } from '../../platform/git/git.ts'
import type { MirrorDeps } from '../mirror.ts'
import { openClone } from './local-clone.ts'
import { MirrorRefused } from './source.ts'
import { createSubmoduleOpener, readSubmoduleUrls, resolveSubmoduleUrl } from './submodules.ts'

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'assay-submodules-'))
  await makeRepository(join(root, 'parent'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const signal = new AbortController().signal
const createDeps = (more: Partial<MirrorDeps> = {}): MirrorDeps => ({
  folder: join(root, 'mirrors'),
  gitAllow: [root],
  resolveName: async () => ['10.0.0.1'],
  ...more,
})

const HTTPS = 'https://git.example.org/team/app.git'
const SCP = 'git@git.example.org:team/app.git'

test.each([
  [HTTPS, '../lib.git', 'https://git.example.org/team/lib.git'],
  [HTTPS, '../../other/lib.git', 'https://git.example.org/other/lib.git'],
  [HTTPS, './lib', 'https://git.example.org/team/app.git/lib'],
  [HTTPS, '../../../lib', undefined],
  [HTTPS, '../..', undefined],
  [HTTPS, 'https://elsewhere.example.org/lib', 'https://elsewhere.example.org/lib'],
  [HTTPS, 'git@git.example.org:team/lib.git', 'https://git.example.org/team/lib.git'],
  [HTTPS, 'ssh://git@git.example.org/team/lib.git', 'https://git.example.org/team/lib.git'],
  [HTTPS, 'ssh://git@git.example.org:2222/team/lib.git', 'ssh://git@git.example.org:2222/team/lib.git'],
  [HTTPS, 'git@elsewhere.example.org:lib.git', 'git@elsewhere.example.org:lib.git'],
  [HTTPS, '/srv/git/secret.git', undefined],
  [SCP, '../lib.git', 'git@git.example.org:team/lib.git'],
  [SCP, '/etc', undefined],
  ['/srv/git/app.git', '../lib.git', '/srv/git/lib.git'],
  ['/srv/git/app.git', '../../../../etc', undefined],
  ['/srv/git/app.git', '/srv/git/lib.git', '/srv/git/lib.git'],
])('a submodule of %s at %s is at %s', (parent, url, expected) => {
  expect(resolveSubmoduleUrl(parent, url)).toBe(expected)
})

const readUrls = async (text: string) => {
  const folder = join(root, 'parent')
  const commit = await commitTree(folder, [{ name: '.gitmodules', content: text }])
  await using clone = await openClone(folder, { signal })
  const blob = (await runGit(clone.location, ['rev-parse', `${commit}:.gitmodules`], { signal })).toString().trim()
  return Object.fromEntries(await readSubmoduleUrls(clone.location, blob, signal))
}

test('reads addresses by path and uses neither names nor other settings', async () => {
  const urls = await readUrls(`[include]
	path = /etc/passwd
[core]
	fsmonitor = touch ${join(root, 'proof')}
[submodule "../../etc"]
	path = lib
	url = ../lib.git
	update = !touch proof
[submodule "a.path"]
	path = "two words"
	url = -uproof
[submodule "no address"]
	path = empty
`)
  expect(urls).toEqual({ lib: '../lib.git', 'two words': '-uproof' })
})

test('throws for a file that git cannot parse', async () => {
  await expect(readUrls('[submodule "x\n')).rejects.toThrow('git failed')
})

const ID = '1'.repeat(40)

test.each([
  ['an option', '--upload-pack=touch proof'],
  ['a program', 'ext::sh -c id'],
  ['a file address', 'file:///etc'],
  ['a private address', 'https://10.0.0.1/lib.git'],
  ['a name with a private address', 'https://inner.example.org/lib.git'],
  ['a path on this machine', '/etc'],
  ['an ssh address without a key', 'git@elsewhere.example.org:lib.git'],
  ['an address above the root', '../../../../lib.git'],
])('refuses %s', async (_, url) => {
  const open = createSubmoduleOpener(createDeps(), { url: HTTPS, key: '1', signal })
  await expect(open(url, ID)).rejects.toThrow(MirrorRefused)
})

test('sends the credential of the repository to its own host, and reaches the server of the operator only from there', async () => {
  await using server = await startServer((_, response) => void response.writeHead(401).end())
  const operatorOrigin = `http://127.0.0.1:${server.port}`
  const deps = createDeps({ operatorOrigin })
  const source = { token: 'made-up-token', signal }
  const same = createSubmoduleOpener(deps, { ...source, key: '2', url: `${operatorOrigin}/team/app.git` })
  await expect(same('../lib.git', ID)).rejects.toThrow(MirrorRefused)
  expect(server.requests[0]).toMatchObject({ path: expect.stringContaining('/team/lib.git') })
  expect(server.requests[0]?.headers.authorization).toMatch(/^Basic /)
  const seen = server.requests.length
  const other = createSubmoduleOpener(deps, { ...source, key: '3', url: HTTPS })
  await expect(other(`${operatorOrigin}/team/lib.git`, ID)).rejects.toThrow(MirrorRefused)
  expect(server.requests).toHaveLength(seen)
})

test('limits the size of all submodules of a repository together', async () => {
  const deps = createDeps({ bytesMax: 1024 ** 2 })
  await makeRepository(join(root, 'lib'))
  const commit = await commitTree(join(root, 'lib'), [{ name: 'a', content: 'a' }])
  await writeFile(join(root, 'lib', 'refs', 'heads', 'main'), `${commit}\n`)
  await mkdir(join(deps.folder, 'submodule-4-other'), { recursive: true })
  const open = createSubmoduleOpener(deps, { url: join(root, 'parent'), key: '4', signal })
  await using _ = await open('../lib', commit)
  await writeFile(join(deps.folder, 'submodule-4-other', 'pack'), Buffer.alloc(1024 ** 2, 'x'))
  await expect(open('../lib', commit)).rejects.toThrow('exceed the size limit')
})
