import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openTrialRunner, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness, nop, oracle } from '../harnesses/reference.ts'

let runner: Awaited<ReturnType<typeof openTrialRunner>>
beforeAll(async () => {
  runner = await openTrialRunner('bwrap')
}, 600_000)
afterAll(async () => runner[Symbol.asyncDispose]())
beforeEach(() => rmSync(join(runner.folder, 'changes.patch'), { force: true }))

const FILES = {
  'main.py': Array.from({ length: 40 }, (_, n) => `line ${n}\n`).join(''),
  'old/gone.txt': 'gone\n',
  'run.sh': '#!/bin/sh\necho hi\n',
  'logo.bin': 'a\0b',
}

/** Files of the environment's folder are in the working directory when the agent starts. */
const taskWith = (name: string, files: Record<string, string> = FILES) =>
  writeTask(
    join(runner.folder, name),
    Object.fromEntries(Object.entries(files).map(([path, text]) => [`environment/${path}`, text])),
  )

const worked = (task: string, line: string) =>
  runner.run(task, createCommandHarness(`echo hello > hello.txt\n${line}`), 'workspace', { savesPatch: true })

const patch = () => readFileSync(join(runner.folder, 'changes.patch'), 'latin1')

/** Applies the patch to the original files with git. */
function applied(files: Record<string, string> = FILES): string {
  const folder = mkdtempSync(join(runner.folder, 'applied-'))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
    if (path.endsWith('.sh')) chmodSync(join(folder, path), 0o755)
  }
  execFileSync('git', ['apply', join(runner.folder, 'changes.patch')], { cwd: folder, stdio: 'pipe' })
  return folder
}

test('changes of an agent are written as a patch that git applies', async () => {
  const work = `sed -i 's/^line 7$/seven/' main.py; rm -r old; mkdir -p src/deep; printf 'no newline' > src/deep/new.py
    : > empty; chmod +x main.py; printf 'é \\377\\n' > "latin ünï.txt"; printf 'c\\0d' > logo.bin; ln -s main.py link.py`
  expect(await worked(taskWith('changed'), work)).toMatchObject({ state: 'passed' })
  const folder = applied()
  expect(readFileSync(join(folder, 'main.py'), 'utf8')).toBe(FILES['main.py'].replace('line 7\n', 'seven\n'))
  expect(statSync(join(folder, 'main.py')).mode & 0o111).not.toBe(0)
  expect(readFileSync(join(folder, 'src/deep/new.py'), 'utf8')).toBe('no newline')
  expect(readFileSync(join(folder, 'latin ünï.txt'), 'latin1')).toBe('Ã© \u00ff\n')
  expect(readdirSync(folder).sort()).toEqual([
    ...['empty', 'hello.txt', 'latin ünï.txt', 'logo.bin', 'main.py', 'run.sh', 'src'],
  ])
  expect(patch()).toMatch(
    /^# Binary files, not shown:\n# {3}logo\.bin \(changed, 3 bytes\)\n# Links, not shown:\n# {3}link\.py \(new/,
  )
  expect(patch().match(/^diff --git/gm)).toHaveLength(6)
  expect(existsSync(join(runner.folder, 'untouched.log'))).toBe(false)
})

test('without changes there is no patch, and control harnesses write none', async () => {
  const task = taskWith('same')
  for (const harness of [oracle, nop, createCommandHarness('true')]) {
    await runner.run(task, harness, 'workspace', { savesPatch: true })
    expect(existsSync(join(runner.folder, 'changes.patch')), harness.id).toBe(false)
  }
  await runner.run(task, createCommandHarness('echo x > x'), 'workspace')
  expect(existsSync(join(runner.folder, 'changes.patch'))).toBe(false)
})

test('output of an earlier trial is removed before the next one, even if that changes nothing', async () => {
  const stale = ['changes.patch', 'trajectory-1.json', 'agent-1.log']
  for (const name of stale) writeFileSync(join(runner.folder, name), 'from an earlier trial')
  await runner.run(taskWith('stale'), createCommandHarness('true'), 'workspace', { savesPatch: true })
  for (const name of stale) {
    const path = join(runner.folder, name)
    expect(existsSync(path) ? readFileSync(path, 'utf8') : '', name).not.toContain('from an earlier trial')
  }
})

test('hostile names and links lead nowhere, and file contents cannot imitate lines of the patch', async () => {
  const work = `ln -s /etc/passwd passwd; ln -s ../../etc away; mkfifo pipe; rm main.py; ln -s /etc/shadow main.py
    printf x > "$(printf 'new\\nline')"; printf x > '"quoted" \\back'; printf x > 'a b/../c' 2>/dev/null
    mkdir -p .git/hooks sub/.GIT; echo 'exit 1' > .git/hooks/pre-commit; echo x > sub/.GIT/config
    printf -- '--- a/x\\n+++ b/x\\ndiff --git a/y b/y\\n@@ -1 +1 @@\\n' > fake.patch
    printf 'a' > "$(printf 'x\\tb/y')" 2>/dev/null; mkdir 'b '; printf x > 'b /b'
    echo '[core]' > .gitconfig; echo '* diff=evil' > .gitattributes`
  expect(await worked(taskWith('hostile'), work)).toMatchObject({ state: 'passed' })
  const text = patch()
  expect(text).not.toContain('root:')
  expect(text).not.toMatch(/^diff --git .*\.git\//im)
  expect(text).toMatch(/^# Not looked at:\n(# {3}.*\n)+/m)
  for (const name of ['away', 'passwd', 'pipe', 'main.py']) expect(text).toContain(`#   ${name}\n`)
  const folder = applied()
  expect(readFileSync(join(folder, 'fake.patch'), 'utf8')).toContain('diff --git a/y b/y\n')
  expect(readdirSync(folder)).toEqual(expect.arrayContaining(['new\nline', '"quoted" \\back', 'b ']))
  expect(existsSync(join(folder, 'y'))).toBe(false)
  expect(readFileSync(join(folder, 'main.py'), 'utf8')).toBe(FILES['main.py'])
})

test('changes to git settings, hooks and ignored files are shown as comments where git would reject them', async () => {
  const files = { ...FILES, '.gitignore': 'secret/\n' }
  const work = `mkdir -p .git/hooks .git/objects .git/refs .git/info secret; echo ignored > secret/file
    printf '[core]\\n\\tfsmonitor = /app/run.sh\\n' > .git/config; echo 'exit 1' > .git/hooks/pre-commit
    echo '* filter=x' > .git/info/attributes; echo data > .git/objects/data; echo sub > .git/modules.txt`
  expect(await worked(taskWith('git settings', files), work)).toMatchObject({ state: 'passed' })
  const text = patch()
  expect(text).toMatch(/^# Git settings and hooks\..* do not reach the tests/m)
  expect(text).toContain('#   +\tfsmonitor = /app/run.sh\n')
  expect(text).toContain('#   diff --git a/.git/hooks/pre-commit b/.git/hooks/pre-commit\n')
  expect(text).toContain('#   +* filter=x\n')
  expect(text).not.toContain('.git/objects')
  expect(text).toMatch(/^diff --git a\/secret\/file b\/secret\/file$/m)
  expect(existsSync(join(applied(files), '.git'))).toBe(false)
})

test('a huge file and too many files are named and counted', async () => {
  const work = `head -c 3000000 /dev/zero | tr '\\0' x > large.txt; truncate -s 5G hole
    mkdir many; for i in $(seq 3000); do echo $i > many/$i; done`
  expect(await worked(taskWith('large'), work)).toMatchObject({ state: 'passed' })
  const text = patch()
  expect(text).toContain('#   large.txt (new, 3000000 bytes)\n')
  expect(text).toContain('#   hole\n')
  expect(text).toMatch(/^# {3}and \d+ more$/m)
  expect(text.match(/^diff --git/gm)).toHaveLength(2000)
  applied()
}, 120_000)

test('thousands of hard links to one file are compared once and hide no other change', async () => {
  const work = `head -c 2000000 /dev/zero | tr '\\0' x > first.txt; mkdir links; echo last > zz.txt
    for i in $(seq 3000); do ln first.txt links/$i; done; ln main.py again.py; echo more >> main.py`
  expect(await worked(taskWith('linked'), work)).toMatchObject({ state: 'passed' })
  const text = patch()
  expect(text).toMatch(/^diff --git a\/zz.txt b\/zz.txt$/m)
  expect(text).toContain('#   links/1 (new, 2000000 bytes)\n')
  expect(text).toContain('#   and 2801 more\n')
  expect(text).not.toMatch(/Not looked at|Not read in time/)
  const folder = applied()
  for (const name of ['main.py', 'again.py'])
    expect(readFileSync(join(folder, name), 'utf8')).toBe(`${FILES['main.py']}more\n`)
}, 120_000)

test('100,000 files do not fail the patch, and files that were not read are not shown as deleted', async () => {
  const work = `mkdir 0; cd 0; seq 100000 | xargs touch`
  const files = { 'zz/last.txt': 'still here\n', 'main.py': 'x\n' }
  expect(await worked(taskWith('crowd', files), work)).toMatchObject({ state: 'passed' })
  const text = patch()
  expect(text.match(/^diff --git/gm)).toHaveLength(2000)
  expect(text).not.toContain('zz/last.txt')
  expect(text).not.toContain('deleted file')
}, 300_000)

test('files in which every line differs are compared in bounded time', async () => {
  const lines = (word: string) => Array.from({ length: 60_000 }, (_, n) => `${n % 97}${word}\n`).join('')
  const files = Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`f${n}.txt`, lines('a')]))
  expect(await worked(taskWith('different', files), `sed -i 's/a$/b/' f*.txt`)).toMatchObject({ state: 'passed' })
  const folder = applied(files)
  expect(readFileSync(join(folder, 'f7.txt'), 'utf8')).toBe(lines('b'))
}, 120_000)

test('a working directory of / has no patch, and the file says so', async () => {
  const task = writeTask(join(runner.folder, 'everything'), {
    'task.toml': taskToml().replace('workdir = "/app"', 'workdir = "/"'),
    'tests/test.sh': '#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n',
  })
  expect(await worked(task, 'true')).toMatchObject({ state: 'passed' })
  expect(patch()).toMatch(/^# The patch could not be created: .*whole filesystem/)
})

test('several steps give one patch, from the start of the first to the end of the last', async () => {
  const step = (name: string) => `[[steps]]\nname = "${name}"\n`
  const task = writeTask(join(runner.folder, 'steps'), {
    'task.toml': taskToml({ end: step('one') + step('two') }),
    'environment/main.py': 'a\n',
    ...Object.fromEntries(
      ['one', 'two'].flatMap((name) => [
        [`steps/${name}/instruction.md`, 'Add a line.\n'],
        [`steps/${name}/tests/test.sh`, '#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n'],
      ]),
    ),
  })
  expect(await worked(task, 'echo more >> main.py')).toMatchObject({ state: 'passed' })
  expect(readFileSync(join(applied({ 'main.py': 'a\n' }), 'main.py'), 'utf8')).toBe('a\nmore\nmore\n')
})
