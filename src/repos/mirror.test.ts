import { execFileSync } from 'node:child_process'
import { appendFile, chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { git, type HistoryCommit, writeHistory } from '../../test/support/histories.ts'
import { type Handler, startServer } from '../../test/support/loopback-servers.ts'
import { lockFile } from '../platform/file-lock.ts'
import { runGit } from '../platform/git/git.ts'
import { MirrorRefused, resolveAccess } from './mirror/source.ts'
import { type MirrorDeps, type MirrorOptions, openMirror } from './mirror.ts'

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'assay-mirror-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const signal = new AbortController().signal
const resolveName = async () => ['10.0.0.1']
const createDeps = (more: Partial<MirrorDeps> = {}): MirrorDeps => ({
  folder: join(root, 'mirrors'),
  gitAllow: [root],
  resolveName,
  ...more,
})
const open = (options: Partial<MirrorOptions>, more?: Partial<MirrorDeps>) =>
  openMirror(createDeps(more), { id: 'demo', url: '', signal, ...options })

const CHANGES: HistoryCommit[] = [
  { message: 'start', files: { 'a.py': 'a\n' } },
  { message: 'Next (#1)', pull: 1, isRebased: true, files: { 'a.py': 'b\n' } },
]

async function source(name: string): Promise<string> {
  const folder = join(root, name)
  await writeHistory(folder, CHANGES)
  await git(folder, ['config', 'uploadpack.allowFilter', 'true'])
  return folder
}

test('mirrors the history and follows force-pushes of its source', async () => {
  const url = await source('followed')
  const steps: string[] = []
  {
    await using mirror = await open({ id: 'followed', url, onProgress: (step) => steps.push(step) })
    expect(mirror.tip).toBe(await git(url, ['rev-parse', 'main']))
    expect([...mirror.pullHeads.keys()]).toEqual([1])
  }
  await git(url, ['update-ref', 'refs/heads/main', 'main~1'])
  await git(url, ['update-ref', '-d', 'refs/pull/1/head'])
  await using mirror = await open({ id: 'followed', url, onProgress: (step) => steps.push(step) })
  expect(mirror.tip).toBe(await git(url, ['rev-parse', 'main']))
  expect(mirror.pullHeads.size).toBe(0)
  expect(steps).toEqual(['waiting', 'cloning', 'ready', 'waiting', 'updating', 'ready'])
})

test('follows changes of the default branch of the source', async () => {
  const url = await source('branches')
  await using before = await open({ id: 'branches', url })
  expect(before.branch).toBe('main')
  await git(url, ['branch', 'trunk', 'main~1'])
  await git(url, ['symbolic-ref', 'HEAD', 'refs/heads/trunk'])
  await using after = await open({ id: 'branches', url })
  expect(after).toMatchObject({ branch: 'trunk', tip: await git(url, ['rev-parse', 'trunk']) })
})

test('updates a mirror only if it lacks the requested commits', async () => {
  const url = await source('enough')
  const commit = await git(url, ['rev-parse', 'main'])
  const steps: string[] = []
  const onProgress = (step: string) => void steps.push(step)
  for (const commits of [[commit], [commit], [commit, 'f'.repeat(40)]]) {
    await using mirror = await open({ id: 'enough', url, commits, onProgress })
    expect(mirror.tip).toBe(commit)
  }
  expect(steps.filter((step) => !['waiting', 'ready'].includes(step))).toEqual(['cloning', 'updating'])
})

test('fetches file contents on demand', async () => {
  const url = await source('lazy')
  await using mirror = await open({ id: 'lazy', url })
  const blob = await git(url, ['rev-parse', 'main:a.py'])
  const read = () => runGit(mirror.location, ['cat-file', '-p', blob], { signal })
  await expect(read()).rejects.toThrow('git failed')
  await mirror.fetchBlobs([blob], signal)
  expect((await read()).toString()).toBe('b\n')
})

test('deletes leftovers of a dead process and recreates a broken mirror', async () => {
  const url = await source('died')
  await (await open({ id: 'died', url }))[Symbol.asyncDispose]()
  const home = join(root, 'mirrors', 'died')
  await writeFile(join(home, 'git', 'packed-refs.lock'), '')
  await writeFile(join(home, 'git', 'config.lock'), '')
  await writeFile(join(home, 'git', 'objects', 'pack', 'tmp_pack_x'), 'half')
  execFileSync('mkdir', ['-p', join(home, 'new-half')])
  await (await open({ id: 'died', url }))[Symbol.asyncDispose]()
  expect((await readdir(home)).toSorted()).toEqual(['git', 'lock'])
  await rm(join(home, 'git', 'HEAD'))
  await using again = await open({ id: 'died', url })
  expect(again.tip).toBe(await git(url, ['rev-parse', 'main']))
})

test('a second process waits for the lock and fails after the maximum wait', async () => {
  const url = await source('both')
  const [one, two] = await Promise.all([open({ id: 'both', url }), open({ id: 'both', url })])
  expect(one.tip).toBe(two.tip)
  await Promise.all([one[Symbol.asyncDispose](), two[Symbol.asyncDispose]()])
  await using _ = await lockFile(join(root, 'mirrors', 'both', 'lock'), 0, signal)
  await expect(open({ id: 'both', url }, { lockWaitMs: 0 })).rejects.toMatchObject({ isPermanent: false })
})

test('refuses a repository that is too large and leaves no files', async () => {
  const folder = join(root, 'large')
  const noise = Array.from({ length: 40_000 }, (_, n) => `${Math.sin(n)}\n`).join('')
  await writeHistory(folder, [{ message: 'start', files: { 'a.txt': noise } }])
  await expect(open({ id: 'large', url: folder }, { bytesMax: 100_000 })).rejects.toThrow('exceeds the size limit')
  await expect(open({ id: 'large', url: folder }, { timeoutMs: 1 })).rejects.toThrow(MirrorRefused)
  await using _ = await open({ id: 'large', url: folder })
  expect((await readdir(join(root, 'mirrors', 'large'))).toSorted()).toEqual(['git', 'lock'])
})

test('does not run hooks or settings of a local source', async () => {
  const url = await source('hostile')
  const proof = join(root, 'proof')
  const evil = join(root, 'evil.sh')
  await writeFile(evil, `#!/bin/sh\necho "$@" >> ${proof}\nexec "$@"\n`)
  await chmod(evil, 0o755)
  await appendFile(
    join(url, 'config'),
    `[uploadpack]\n\tpackObjectsHook = ${evil}\n[core]\n\tfsmonitor = ${evil}\n\thooksPath = ${root}\n\talternateRefsCommand = ${evil}\n[remote "origin"]\n\turl = ext::${evil}\n`,
  )
  await using mirror = await open({ id: 'hostile', url })
  expect(mirror.tip).toBe(await git(url, ['rev-parse', 'main']))
  expect(await readdir(root)).not.toContain('proof')
})

test.each([
  ['a path that is not allowed', '/etc'],
  ['ext', 'ext::sh -c id'],
  ['a file address', 'file:///etc'],
  ['ssh', 'git@example.org:lab/demo.git'],
  ['an option', '--upload-pack=id'],
  ['a private address', 'https://10.0.0.1/demo.git'],
  ['a name with a private address', 'https://git.example.org/demo.git'],
  ['plain http', 'http://git.example.org/demo.git'],
  ['a password in it', 'https://a:b@git.example.org/demo.git'],
  ['a query', 'https://93.184.216.34/demo.git?x=1'],
  ['two readings', 'https://93.184.216.34\\@127.0.0.1:22443/x.git'],
])('%s is refused', async (_, url) => {
  await expect(open({ id: 'refused', url })).rejects.toThrow(MirrorRefused)
})

test('never connects git to an internal server, however its address is written', async () => {
  await using inner = await startServer((_, response) => void response.end())
  for (const url of [
    `https://93.184.216.34\\@127.0.0.1:${inner.port}/x.git`,
    `https://93.184.216.34:443\\@127.0.0.1:${inner.port}/x.git`,
    `https://127.1:${inner.port}/x.git`,
    `https://[::ffff:127.0.0.1]:${inner.port}/x.git`,
    `https://localhost.:${inner.port}/x.git`,
  ])
    await expect(open({ id: 'inner', url }, { resolveName: async () => ['93.184.216.34'] })).rejects.toThrow(
      MirrorRefused,
    )
  expect(inner.connections).toEqual([])
})

test('reports a generic message for any server response and logs the details', async () => {
  const answers: Handler[] = [
    (_, response) => void response.writeHead(500, { server: 'inner/1.0' }).end('secret banner'),
    (_, response) =>
      void response
        .setHeader('content-type', 'application/x-git-upload-pack-advertisement')
        .end('0015# service=git-secret banner'),
    ({ socket }) => void socket.end('SSH-2.0-inner secret banner\r\n'),
    ({ socket }) => void socket.destroy(),
    (_, response) => void response.writeHead(302, { location: 'http://127.0.0.1:9/secret' }).end(),
  ]
  const logged: unknown[] = []
  const log = { warn: (about: object) => void logged.push(about) }
  const messages = new Set<string>()
  for (const answer of answers) {
    await using server = await startServer(answer)
    const operatorOrigin = `http://127.0.0.1:${server.port}`
    const failed = open({ id: 'neutral', url: `${operatorOrigin}/401-403.git` }, { operatorOrigin, log })
    messages.add(await failed.then(String, (error: unknown) => (error instanceof MirrorRefused ? error.message : '')))
  }
  expect([...messages]).toEqual(['The repository could not be read. See the log of the service for the reason.'])
  expect(logged).toHaveLength(answers.length)
  expect(String(logged.map((about) => (about as { error: Error }).error.message))).toContain('500')
})

test('checks a name again before each fetch and pins git to the resolved addresses', async () => {
  const answers = [['93.184.216.34'], ['127.0.0.1']]
  const rules = { gitAllow: [], resolveName: async () => answers.shift() ?? [] }
  const source = { url: 'https://git.example.org/demo.git' }
  expect((await resolveAccess(source, rules)).pin?.addresses).toEqual(['93.184.216.34'])
  await expect(resolveAccess(source, rules)).rejects.toThrow('does not have a public address')
})

test('sends the token in a header and stores it in no file', async () => {
  const seen: (string | undefined)[] = []
  const server = createServer((request, response) => {
    seen.push(request.headers.authorization)
    response.writeHead(401).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const origin = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
  const failed = open({ id: 'token', url: `${origin}/demo.git`, token: 'made-up-token' }, { operatorOrigin: origin })
  const error: unknown = await failed.catch((caught: unknown) => caught)
  server.close()
  expect(seen[0]).toBe(`Basic ${Buffer.from('x-access-token:made-up-token').toString('base64')}`)
  expect(error).toBeInstanceOf(MirrorRefused)
  expect(String(error)).not.toContain('made-up')
  const files = await readdir(join(root, 'mirrors', 'token'), { recursive: true, withFileTypes: true })
  for (const { parentPath, name } of files.filter((each) => each.isFile()))
    expect(await readFile(join(parentPath, name), 'latin1')).not.toMatch(/made-up|eC1hY2Nlc3M/)
})
