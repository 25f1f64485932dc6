import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { git, type HistoryCommit, writeHistory } from '../../../test/support/histories.ts'
import { RepositoryUnreadable } from '../../repos/mirror/local-clone.ts'
import { scanClone } from './scan-clone.ts'

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'assay-scan-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const signal = new AbortController().signal
const NOW = new Date('2026-06-01')
const scan = (folder: string, options: object = {}) => scanClone(folder, { signal, now: NOW, ...options })

const lines = (count: number, word: string) => Array.from({ length: count }, (_, n) => `${word} ${n}\n`).join('')
const FIX = (word: string, count = 5) => ({
  'src/app.py': lines(count, word),
  'tests/test_app.py': lines(4, `def test_${word}`),
})
const ZERO: HistoryCommit = {
  message: 'start',
  files: { 'src/app.py': 'x\n', 'README.md': '#\n', 'src/lib.rs': 'x\n' },
}

/** One pull request for each verdict, each on a file of its own where that matters. */
const CASES: [verdict: string, change: HistoryCommit][] = [
  ['easy', { message: 'Fix the parser (#1)', files: FIX('one') }],
  ['medium', { message: 'Merge pull request #2 from ada/fix\n\nMake it quick', isMerge: true, files: FIX('two', 60) }],
  ['hard', { message: 'Rework it all (#3)', files: FIX('three', 150) }],
  ['bot', { message: 'Make it new (#4)', author: 'dependabot[bot]', files: FIX('four') }],
  ['bot', { message: 'Merge pull request #5 from acme/renovate/all\n\nNew', isMerge: true, files: FIX('five') }],
  ['chore_title', { message: 'chore: move things (#6)', files: FIX('six') }],
  ['chore_title', { message: '[1.x] Backport the fix (#7)', files: FIX('seven') }],
  ['reverted', { message: 'Do it badly (#8)', files: FIX('eight') }],
  ['chore_title', { message: 'Revert "Do it badly (#8)" (#9)', files: FIX('nine') }],
  ['too_new', { message: 'Only just now (#10)', files: FIX('ten'), at: Date.parse('2026-05-30') / 1000 }],
  ['docs_only', { message: 'Say more (#11)', files: { 'README.md': 'more\n' } }],
  ['dependencies_only', { message: 'Newer parts (#12)', files: { 'package.json': '{}\n', 'yarn.lock': 'a\n' } }],
  ['generated_only', { message: 'New protocol (#13)', files: { 'api/x.pb.go': 'package x\n', 'go.sum': 'x\n' } }],
  ['tests_only', { message: 'More tests (#14)', files: { 'tests/test_b.py': lines(4, 'def test_b') } }],
  ['no_source', { message: 'Other settings (#15)', files: { 'settings.yaml': 'a: 1\n' } }],
  ['no_tests', { message: 'Untested (#16)', files: { 'src/app.py': lines(5, 'untested') } }],
  ['no_tests', { message: 'Only data (#17)', files: { 'src/b.py': lines(5, 'b'), 'tests/data.json': '{}\n' } }],
  [
    'inline_tests',
    { message: 'Inside (#18)', files: { 'src/lib.rs': `${lines(4, 'x')}#[cfg(test)]\nmod tests {}\n` } },
  ],
  [
    'too_small',
    { message: 'Tiny (#19)', files: { 'src/tiny.py': 'x = 1\n', 'tests/test_t.py': lines(4, 'def test_t') } },
  ],
  ['too_large', { message: 'Huge (#20)', files: FIX('huge', 2000) }],
  [
    'too_large',
    { message: 'Wide (#21)', files: Object.fromEntries(Array.from({ length: 90 }, (_, n) => [`w/${n}.py`, 'x'])) },
  ],
  ['binary', { message: 'A picture (#22)', files: { ...FIX('picture'), 'src/logo.png': '\0PNG' } }],
  [
    'binary',
    {
      message: 'In LFS (#23)',
      files: { ...FIX('lfs'), 'src/a.bin': 'version https://git-lfs.github.com/spec/v1\noid x\n' },
    },
  ],
  [
    'cosmetic',
    { message: 'Tidy (#24)', files: { 'src/b.py': lines(5, '  b'), 'tests/test_c.py': lines(4, 'def test_c') } },
  ],
  ['duplicate', { message: 'Twice (#25)', files: FIX('twice') }],
  ['easy', { message: 'Twice (#25)', files: FIX('again') }],
  ['empty', { message: 'Nothing (#26)', files: {} }],
]

async function known(name: string): Promise<string> {
  const folder = join(root, name)
  await writeHistory(folder, [ZERO, ...CASES.map(([, change]) => change)])
  return folder
}

test('classifies each pull request as a candidate with a difficulty or excludes it with a reason', async () => {
  const { funnel, candidates, commits } = await scan(await known('known'))
  const counts = new Map<string, number>()
  for (const [verdict] of CASES) counts.set(verdict, (counts.get(verdict) ?? 0) + 1)
  const found = {
    ...funnel.candidates,
    ...Object.fromEntries(funnel.rejections.map((each) => [each.reason, each.count])),
  }
  expect(found).toEqual(Object.fromEntries(counts))
  expect({ commits, recognised: funnel.recognised }).toEqual({ commits: CASES.length + 1, recognised: CASES.length })
  expect(candidates.map(({ number }) => number)).toEqual([25, 3, 2, 1])
  expect(candidates.at(-1)?.features).toMatchObject({ sourceFiles: 1, sourceLines: 6, languages: ['python'] })
})

test('a second scan gives the same result, even with a damaged cache', async () => {
  const folder = await known('kept')
  const cacheFolder = join(root, 'cache')
  const first = await scan(folder, { cacheFolder })
  expect(await scan(folder, { cacheFolder })).toEqual(first)
  const [file = ''] = await readdir(join(cacheFolder, 'scan'))
  await writeFile(join(cacheFolder, 'scan', file), '{"screen":1}\n["x",{"kind":"rejected"}]\nhalf a li')
  expect(await scan(folder, { cacheFolder })).toEqual(first)
})

test('reports an unwritable cache without failing', async () => {
  await writeFile(join(root, 'file'), '')
  expect((await scan(await known('unkept'), { cacheFolder: join(root, 'file') })).isCached).toBe(false)
})

test('limits the scan to the newest pull requests', async () => {
  const { funnel } = await scan(await known('few'), { limit: 3 })
  expect(funnel.recognised).toBe(3)
})

test('runs no settings, hooks or attributes of a repository', async () => {
  const bare = await known('tame')
  const folder = join(root, 'hostile')
  await git(root, ['clone', '--quiet', bare, folder])
  const evil = join(root, 'evil.sh')
  const proof = join(root, 'proof')
  await writeFile(evil, `#!/bin/sh\necho "$0 $@" >> ${proof}\ncat\n`)
  await chmod(evil, 0o755)
  await writeFile(
    join(folder, '.git/config'),
    `[core]\n\trepositoryformatversion = 0\n\tfsmonitor = ${evil}\n\thooksPath = ${root}/hooks\n\tpager = ${evil}\n\tsshCommand = ${evil}\n\talternateRefsCommand = ${evil}\n` +
      `[alias]\n\tlog = !${evil}\n\tdiff-tree = !${evil}\n[diff]\n\texternal = ${evil}\n[diff "x"]\n\ttextconv = ${evil}\n\tcommand = ${evil}\n` +
      `[filter "x"]\n\tclean = ${evil}\n\tsmudge = ${evil}\n\tprocess = ${evil}\n[remote "origin"]\n\turl = ext::${evil}\n\tpromisor = true\n\tuploadpack = ${evil}\n` +
      `[gpg]\n\tprogram = ${evil}\n[log]\n\tshowSignature = true\n[pager]\n\tlog = ${evil}\n[include]\n\tpath = ${evil}\n`,
  )
  await mkdir(join(folder, '.git/info'), { recursive: true })
  await writeFile(join(folder, '.git/info/attributes'), '* diff=x filter=x\n')
  await writeFile(join(folder, '.gitattributes'), '* diff=x filter=x\n')
  await mkdir(join(root, 'hooks'))
  for (const hook of ['post-checkout', 'reference-transaction', 'post-index-change', 'fsmonitor-watchman'])
    await writeFile(join(root, 'hooks', hook), `#!/bin/sh\necho ${hook} >> ${proof}\n`, { mode: 0o755 })
  // git refuses such a config as a whole where it includes a script; without that line it is read.
  await expect(scan(folder)).rejects.toThrow()
  const config = join(folder, '.git/config')
  await writeFile(config, (await readFile(config, 'utf8')).split('[include]')[0] ?? '')
  const [wild, tame] = [await scan(folder), await scan(bare)]
  expect(wild.funnel).toEqual(tame.funnel)
  expect(await readdir(root)).not.toContain('proof')
})

test('reads clones with a working tree, as a second working tree, and shallow', async () => {
  const bare = await known('shapes')
  const { funnel } = await scan(bare)
  await git(root, ['clone', '--quiet', bare, 'plain'])
  expect((await scan(join(root, 'plain'))).funnel).toEqual(funnel)
  await git(join(root, 'plain'), ['worktree', 'add', '--quiet', '-b', 'other', join(root, 'second')])
  expect((await scan(join(root, 'second'))).branch).toBe('main')
  await git(root, ['clone', '--quiet', '--depth=5', `file://${bare}`, 'shallow'])
  const shallow = await scan(join(root, 'shallow'))
  expect(shallow).toMatchObject({ isShallow: true, commits: 5 })
  expect(shallow.funnel.rejections.find(({ reason }) => reason === 'no_base')?.count).toBe(1)
})

test('reports a partial clone without files and fetches nothing', async () => {
  const bare = await known('whole')
  await git(bare, ['config', 'uploadpack.allowFilter', 'true'])
  await git(root, ['clone', '--quiet', '--bare', '--filter=blob:none', `file://${bare}`, 'partial'])
  const { funnel } = await scan(join(root, 'partial'))
  expect(Object.values(funnel.candidates)).toEqual([0, 0, 0])
  expect(funnel.rejections.find(({ reason }) => reason === 'no_base')?.examples[0]?.evidence).toContain(
    'not in this clone',
  )
})

test.each([
  ['nothing', 'nowhere', /Folder not found: .*nowhere\./],
  ['a file', 'file', /file is a file\. Name the folder of a clone/],
  ['a folder', '.', /not a git repository/],
])('%s is no repository', async (_, name, message) => {
  await writeFile(join(root, 'file'), '')
  const error: unknown = await scan(join(root, name)).catch((caught: unknown) => caught)
  expect(error).toBeInstanceOf(RepositoryUnreadable)
  expect(String(error)).toMatch(message)
})

test('finds nothing in an empty repository and reports a missing branch', async () => {
  const folder = join(root, 'empty')
  await writeHistory(folder, [])
  expect(await scan(folder)).toMatchObject({ tip: null, commits: 0, funnel: { recognised: 0, rejections: [] } })
  await expect(scan(folder, { branch: 'gone' })).rejects.toThrow('Branch not found: gone.')
})

test('handles names and messages with invalid UTF-8 or git syntax as text', async () => {
  const folder = join(root, 'odd')
  const id = '1'.repeat(40)
  const forged = `${id} ${id}\n:100644 100644 ${id} ${id} M\tx.py\ndiff --git a/x b/x\n@@ -1 +1 @@\n`
  await writeHistory(folder, [
    ZERO,
    {
      message: 'Caf\xe9 \x1b[31m <script>$(id) (#1)',
      files: { 'src/caf\xe9 "\n.py': lines(5, 'x'), ...FIX('odd') },
    },
    { message: `Forge (#2)\n\n${forged}`, files: { 'src/f.py': forged, 'tests/test_f.py': lines(4, 'def test_f') } },
    { message: `${'very long '.repeat(50_000)}(#3)`, files: FIX('long') },
  ])
  const { funnel, candidates } = await scan(folder)
  expect(candidates.map(({ number, features }) => [number, features.sourceFiles])).toEqual([
    [2, 1],
    [1, 2],
  ])
  // The end of the endless one is not read.
  expect(funnel.recognised).toBe(2)
})

test('treats a commit with an invalid date as old', async () => {
  const folder = join(root, 'dates')
  const fix: HistoryCommit = { message: 'Fix it (#1)', files: FIX('one'), at: 99_999_999_999_999 }
  await writeHistory(folder, [ZERO, fix, { message: 'Fix it again (#2)', files: FIX('two') }])
  const found = await scan(folder)
  expect(found.candidates.map(({ number, mergedAt }) => [number, mergedAt.slice(0, 4)])).toEqual([
    [2, '2017'],
    [1, '1970'],
  ])
})
