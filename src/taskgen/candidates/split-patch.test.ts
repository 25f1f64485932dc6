import { execFileSync } from 'node:child_process'
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { environment, git } from '../../../test/support/histories.ts'
import { splitPatch } from './split-commit.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'assay-split-'))
  await git(folder, ['init', '--quiet', '.'])
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const run = (args: string[], input?: Buffer): Buffer =>
  execFileSync('git', args, { cwd: folder, env: environment, input, maxBuffer: 1e9 })

async function committed(files: Record<string, string | Buffer | null>): Promise<string> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(join(folder, path, '..'), { recursive: true })
    if (text === null) await rm(join(folder, path))
    else await writeFile(join(folder, path), text)
  }
  run(['add', '--all'])
  run(['commit', '--quiet', '--allow-empty', '--message', 'x'])
  return run(['rev-parse', 'HEAD']).toString().trim()
}

test('the three parts applied to the base in any order give the whole change', async () => {
  const base = await committed({
    'src/app.py': 'a\nb\n',
    'src/gone.py': 'x\n',
    'tests/test_app.py': 'def test_a(): pass',
    'README.md': '#\n',
    'logo.png': Buffer.from([0, 1, 2]),
  })
  await chmod(join(folder, 'src/app.py'), 0o755)
  await symlink('app.py', join(folder, 'src/link.py'))
  const head = await committed({
    'src/app.py': 'a\nc\n\ndiff --git a/tests/x.py b/tests/x.py\n\r\nno end',
    'src/gone.py': null,
    'src/new "naïve"\n.py': Buffer.from('caf\xe9\n', 'latin1'),
    'tests/test_app.py': 'def test_a(): assert 1\n',
    'tests/data/x.bin': Buffer.from([0, 255, 10, 13, 0]),
    'README.md': 'more\n',
    'logo.png': Buffer.from([0, 9, 9, 10]),
    'package-lock.json': '{}\n',
  })
  const patch = run(['diff-tree', '-p', '--binary', '--full-index', '--no-renames', base, head]).toString('latin1')
  const { source, test: tests, rest } = splitPatch(patch)
  expect([source, tests, rest].join('').length).toBe(patch.length)
  for (const order of [
    [source, tests, rest],
    [rest, tests, source],
  ]) {
    run(['read-tree', base])
    for (const part of order) run(['apply', '--cached', '--binary', '-'], Buffer.from(part, 'latin1'))
    expect(run(['write-tree']).toString()).toBe(run(['rev-parse', `${head}^{tree}`]).toString())
  }
  const names = (part: string) => part.match(/^diff --git .*$/gm)?.length
  expect([names(source), names(tests), names(rest)]).toEqual([4, 2, 3])
})

test('splits an empty patch into empty parts', () => {
  expect(splitPatch('')).toEqual({ source: '', test: '', rest: '' })
})
