import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { assay, hasTerminal, onTerminal, scratchFolder } from '../test/support/assay-command.ts'
import { writeHistory } from '../test/support/histories.ts'

const folder = scratchFolder()
const clone = join(folder.path, 'clone')
const env = { XDG_CACHE_HOME: join(folder.path, 'cache') }
const lines = (word: string) => Array.from({ length: 5 }, (_, n) => `${word} ${n}\n`).join('')

beforeAll(() =>
  writeHistory(clone, [
    { message: 'start', files: { 'src/app.py': 'x\n' } },
    { message: 'Fix \x1b]0;it (#1)', files: { 'src/app.py': lines('a'), 'tests/test_app.py': lines('def test_a') } },
    { message: 'Say more (#2)', files: { 'README.md': 'more\n' } },
  ]),
)
afterAll(folder.remove)

const NO_FOLDER = new URL(import.meta.url).pathname
const FUNNEL = [
  '2 pull requests recognised in 3 commits of main (67 %)',
  ' squash 2',
  '1 candidate (50 %)',
  ' easy 1',
  ' medium 0',
  ' hard 0',
  '1 rejected',
  ' docs_only 1 It changes only documentation.',
]
const NEXT = 'Next: connect it to a service with `assay repos connect`, and create tasks with `assay batches create`.\n'
const shown = (out: string) =>
  out
    .trimEnd()
    .split('\n')
    .map((line) => line.replaceAll(/ {2,}/g, ' '))

test('prints the funnel of a clone without server, network and key, and the same again', async () => {
  for (const _ of [1, 2]) {
    const { code, out, err } = await assay(['scan', clone], { env })
    expect({ code, err, lines: shown(out) }).toEqual({ code: 0, err: NEXT, lines: FUNNEL })
  }
})

test('--list prints the candidates with sanitised titles', async () => {
  const { out } = await assay(['scan', clone, '--list'], { env })
  expect(shown(out).slice(FUNNEL.length)).toEqual(['#1 easy 2017-07-16 1 file, 6 lines Fix �]0;it'])
})

test('explains which pull requests are recognised if there are none', async () => {
  const plain = join(folder.path, 'plain')
  await writeHistory(plain, [{ message: 'start', files: { 'src/app.py': 'x\n' } }])
  const { code, out, err } = await assay(['scan', plain], { env })
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(shown(out)[0]).toBe('0 pull requests recognised in 1 commit of main (0 %)')
  expect(out).toContain("git fetch origin '+refs/pull/*/head:refs/pull/*/head'")
  expect(out).not.toContain('candidate')
})

test('--json prints the complete result', async () => {
  const { code, out } = await assay(['scan', clone, '--json', '--limit', '1'], { env })
  expect(code).toBe(0)
  expect(JSON.parse(out)).toMatchObject({
    branch: 'main',
    isShallow: false,
    candidates: [],
    funnel: {
      recognised: 1,
      rejections: [{ reason: 'docs_only', count: 1, examples: [{ number: 2, title: 'Say more' }] }],
    },
  })
})

test('refuses a folder that is not a repository and an invalid count', async () => {
  expect(await assay(['scan', folder.path], { env })).toEqual({
    code: 1,
    out: '',
    err: `error: ${folder.path} is not a git repository.\n`,
  })
  expect((await assay(['scan', clone, '--limit', '0'], { env })).code).toBe(2)
})

test('reports a cache that cannot be written and still prints the funnel', async () => {
  const { code, err, out } = await assay(['scan', clone], { env: { XDG_CACHE_HOME: NO_FOLDER } })
  expect({ code, first: shown(out)[0] }).toEqual({ code: 0, first: FUNNEL[0] })
  expect(err).toContain('could not be cached')
  expect((await assay(['scan', clone, '--no-cache'], { env: { XDG_CACHE_HOME: NO_FOLDER } })).err).toBe(NEXT)
})

test.skipIf(!hasTerminal)('shows progress on a terminal', async () => {
  const { out } = await onTerminal(['scan', clone], env, () => undefined)
  expect(out).toMatch(/\r\d+ pull requests? in \d+ commits? so far/)
})
