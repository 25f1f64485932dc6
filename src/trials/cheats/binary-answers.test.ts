import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { constantDatabases, crowdedDatabases, hollowArchives } from './binary-answers.ts'
import type { Cheat } from './cheat.ts'

let folder: string
let scripts: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'assay-cheats-'))
  scripts = mkdtempSync(join(tmpdir(), 'assay-cheats-'))
})
afterEach(() => {
  for (const path of [folder, scripts]) rmSync(path, { recursive: true, force: true })
})

/** Runs a cheat with a reference solution. */
function solveWith(cheat: Cheat, solutionScript: string, solved: string[]): number | null {
  const solution = join(scripts, 'solve.sh')
  writeFileSync(solution, `#!/bin/sh\n${solutionScript}\n`, { mode: 0o755 })
  const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: folder, solution, solved: solved.join('\n'), carried: '' }
  return spawnSync('sh', ['-c', cheat.script], { cwd: folder, env, input: '' }).status
}

const python = (lines: string) => `python3 - << 'P'\n${lines}\nP\n`
const print = (lines: string): string =>
  spawnSync('python3', ['-c', lines], { cwd: folder, encoding: 'utf8' }).stdout.trim()

test('empty the files in archives', () => {
  const script = `echo text > a.txt; tar -czf out.tar.gz a.txt; rm a.txt\n${python('import zipfile\nz = zipfile.ZipFile("out.zip", "w")\nz.writestr("b", "text")\nz.close()')}`
  expect(solveWith(hollowArchives, script, ['out.tar.gz', 'out.zip'])).toBe(0)
  const list =
    'import tarfile, zipfile\nprint([(m.name, m.size) for m in tarfile.open("out.tar.gz")], [(i.filename, i.file_size) for i in zipfile.ZipFile("out.zip").infolist()])'
  expect(print(list)).toBe("[('a.txt', 0)] [('b', 0)]")
  expect(solveWith(hollowArchives, 'head -c 5000 /dev/zero > out.bin', ['out.bin'])).toBe(77)
})

test('replace the values of databases, and put rows among others', () => {
  const script = python(
    'import sqlite3\ndb = sqlite3.connect("out.db")\ndb.execute("create table t (k text, n integer)")\ndb.executemany("insert into t values (?, ?)", [("a", 17), ("b", 4)])\ndb.commit()',
  )
  const rows = 'import sqlite3\nprint(sqlite3.connect("out.db").execute("select * from t").fetchall())'
  expect(solveWith(constantDatabases, script, ['out.db'])).toBe(0)
  expect(print(rows)).toBe("[('x', 1), ('x', 1)]")
  rmSync(join(folder, 'out.db'))
  expect(solveWith(crowdedDatabases, script, ['out.db'])).toBe(0)
  expect(print(rows)).toContain("('a', 17), ('b', 4), ('a', 28), ('b', 5), ")
  rmSync(join(folder, 'out.db'))
  expect(solveWith(crowdedDatabases, 'head -c 5000 /dev/zero > out.bin', ['out.bin'])).toBe(77)
})
