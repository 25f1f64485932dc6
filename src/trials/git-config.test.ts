import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sanitizeGitConfig } from './submission-guard.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'assay-git-config-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Returns the settings of a configuration as git reads them. */
function readByGit(text: string): string[] {
  const file = join(folder, 'config')
  writeFileSync(file, text)
  const list = execFileSync('git', ['config', '--file', file, '--no-includes', '--list', '-z'], { encoding: 'utf8' })
  return list.split('\0').filter(Boolean)
}

const ORDINARY = `[core]
	repositoryformatversion = 0
	bare = false
[remote "origin"]
	url = https://example.com/a.git ; comment
	fetch = "+refs/heads/*:refs/remotes/origin/*"
[branch "ma\\"in"]
	merge = refs/heads/main
[User] name = "A  \\"B\\" \\\\ C" # comment
	email
`

test('git reads ordinary settings unchanged', () => {
  expect(readByGit(sanitizeGitConfig(ORDINARY))).toEqual(readByGit(ORDINARY))
})

test.each([
  ['a file system monitor', '[core]\n\tfsmonitor = /x'],
  ['a key in another case', '[CoRe]\n\tFsMonitor = /x'],
  ['a key on the line of its section', '[core] fsmonitor = /x'],
  ['a continued line', '[user]\n\tname = a\\\n\n[core]\n\tfsmonitor = \\\n /x'],
  ['a section without a space before its name', '[filter"x"]\n\tclean = /x'],
  ['a section in the old form', '[filter.x]\n\tsmudge = /x'],
  ['an included file', '[include]\n\tpath = /x'],
  ['a conditional include', '[includeIf "gitdir:/"]\n\tpath = /x'],
  ['a hooks folder', '[core]\n\thooksPath = /x'],
  ['a filter', '[filter "x"]\n\tclean = /x\n\tsmudge = /x\n\tprocess = /x'],
  ['an external diff', '[diff]\n\texternal = /x\n[diff "x"]\n\ttextconv = /x\n\tcommand = /x'],
  ['an alias', '[alias]\n\tstatus = !/x'],
  ['a pager of one command', '[pager]\n\tlog = /x'],
  ['a program of a remote', '[remote "origin"]\n\tuploadpack = /x\n\tvcs = x'],
  ['settings of a worktree', '[extensions]\n\tworktreeConfig = true'],
  ['a submodule that runs a command', '[submodule "x"]\n\tupdate = !/x'],
  ['another work tree', '[core]\n\tworktree = /x'],
])('%s is dropped', (_, text) => {
  const kept = readByGit(sanitizeGitConfig(`${ORDINARY}${text}\n`))
  expect(readByGit(ORDINARY)).toEqual(expect.arrayContaining(kept.filter((line) => line !== 'user.name\na')))
})

test('a value cannot start a new line', () => {
  const text = sanitizeGitConfig('[user]\n\tname = "a\\n[core]\\n\\tfsmonitor = /x"\n')
  expect(readByGit(text)).toEqual(['user.name\na\n[core]\n\tfsmonitor = /x'])
})
