import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { temporaryFolder, writeFiles } from '../../../test/support/harbor/folders.ts'
import { type CollectPaths, renderCollectScript, renderSaveBaseScript } from './generated-task.ts'

const run = promisify(execFile)

/** A repository as an image has it, on this machine. */
async function openRepository(files: Record<string, string>, line = 'true') {
  const place = await temporaryFolder()
  const places: CollectPaths = {
    repository: join(place.path, 'repo'),
    submission: join(place.path, 'logs/artifacts/submission.patch'),
    base: join(place.path, 'base.git'),
  }
  const inside = (line: string) => run('bash', ['-c', line], { cwd: places.repository, maxBuffer: 64e6 })
  await mkdir(places.repository)
  await writeFiles(places.repository, files)
  await inside('git init -q && git add -A -f && git -c user.name=a -c user.email=a@b commit -qm base')
  await inside(line)
  await inside(renderSaveBaseScript(places))
  await inside('cp -a . ../pristine')
  return {
    ...places,
    inside,
    async collected(): Promise<string> {
      await inside(renderCollectScript(places))
      return readFile(places.submission, 'latin1')
    },
    /** What comes of the patch elsewhere: what differs from what the agent had. */
    async difference(): Promise<string> {
      const pristine = join(place.path, 'pristine')
      await run('git', ['apply', '--whitespace=nowarn', places.submission], { cwd: pristine })
      const words = ['-r', '--no-dereference', '--exclude=.git', pristine, places.repository]
      return run('diff', words).then(
        ({ stdout }) => stdout,
        ({ stdout }: { stdout: string }) => stdout,
      )
    },
    [Symbol.asyncDispose]: () => place[Symbol.asyncDispose](),
  }
}

const FILES = {
  'src/a.py': 'one\ntwo\n',
  'windows.txt': 'one\r\ntwo\r\n',
  '.gitattributes': '* text=auto\n',
  '.gitignore': 'dist/\n',
  'dist/kept.js': 'kept\n',
}

test('submits nothing if the agent did nothing', async () => {
  await using repository = await openRepository(FILES)
  expect(await repository.collected()).toBe('')
})

test('submits every kind of change exactly', async () => {
  await using repository = await openRepository(FILES)
  await repository.inside(`printf 'one\\r\\nthree\\r\\n' > windows.txt; rm -r src; mkdir -p 'new [1]'
    printf '\\0\\1\\377' > 'new [1]/b.bin'; echo changed > dist/kept.js; chmod 755 .gitignore; ln -s ../windows.txt 'new [1]/link'
    printf 'no end' > ümlaut.txt; : > empty`)
  expect(await repository.collected()).toContain('GIT binary patch')
  expect(await repository.difference()).toBe('')
})

test.each([
  ['deletes .git', 'rm -rf .git'],
  [
    'begins .git anew',
    'rm -rf .git && git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm mine',
  ],
  ['commits', 'git add -A && git -c user.name=a -c user.email=a@b commit -qm mine'],
  ['leaves a file where .git was', 'rm -rf .git && echo "gitdir: /nowhere" > .git'],
  ['leaves an index that is none, and a lock', 'echo x > .git/index; touch .git/index.lock'],
  [
    'sets hooks, filters, a pager and programs that compare',
    `git config core.hooksPath "$PWD/.git/hooks"; git config core.fsmonitor "touch ran"; git config filter.f.clean "touch ran"
     git config diff.external "touch ran"; git config diff.d.textconv "touch ran"; echo '* filter=f diff=d' > .git/info/attributes`,
  ],
  ['makes the place of the patch a folder', 'mkdir -p ../logs/artifacts/submission.patch/x'],
  ['makes the folder of the patch a link', 'mkdir -p ../logs && ln -s /nowhere ../logs/artifacts'],
])('finds the change of an agent that %s', async (_, line) => {
  await using repository = await openRepository(FILES)
  await repository.inside(`echo three >> src/a.py; ${line}`)
  expect(await repository.collected()).toContain('\n+three\n')
  await expect(readFile(join(repository.repository, 'ran'))).rejects.toThrow('ENOENT')
  expect(await repository.difference()).toBe('')
})

test('omits large new files, clones and pipes', async () => {
  await using repository = await openRepository(FILES)
  await repository.inside(
    `head -c 2000000 /dev/zero > 'core [1]!'; mkfifo pipe; mkdir clone && cd clone && git init -q && echo x > y`,
  )
  expect(await repository.collected()).toBe('')
})

const ADD_SUBMODULE = `git update-index --add --cacheinfo '160000,${'1'.repeat(40)},lib x' && git -c user.name=a -c user.email=a@b commit -qm base
  mkdir 'lib x' && echo one > 'lib x/file'`

test.each([
  ['edits files of it', `echo two > 'lib x/file'; echo new > 'lib x/new'`],
  ['deletes it', `rm -r 'lib x'`],
  [
    'makes it a repository',
    `cd 'lib x' && git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm mine`,
  ],
])('omits a submodule if the agent %s, and finds other changes', async (_, line) => {
  await using repository = await openRepository(FILES, ADD_SUBMODULE)
  expect(await repository.collected()).toBe('')
  await repository.inside(`echo three >> src/a.py; ${line}`)
  const patch = await repository.collected()
  expect(patch).toContain('\n+three\n')
  expect(patch).not.toContain('lib x')
})

test('omits files that the image created itself, even without .gitignore', async () => {
  await using repository = await openRepository(FILES, 'mkdir -p .git/info && echo built/ > .git/info/exclude')
  await repository.inside('mkdir built && echo x > built/y && rm -rf .git')
  expect(await repository.collected()).toBe('')
})

test('omits an endless change', async () => {
  await using repository = await openRepository(FILES)
  for (let n = 0; n < 35; n += 1) {
    await writeFile(join(repository.repository, `noise-${n}`), randomBytes(500_000).toString('hex'))
  }
  await expect(repository.collected()).rejects.toThrow()
  await expect(readFile(repository.submission)).rejects.toThrow('ENOENT')
})
