import { expect, test } from 'vitest'
import { useCheatFolder } from '../../../test/support/trials/cheat-folder.ts'
import { constantDatabases, crowdedDatabases, hollowArchives } from './binary-answers.ts'

const { print, remove, solveWith } = useCheatFolder()

const python = (lines: string) => `python3 - << 'P'\n${lines}\nP\n`
test('empty the files in archives', () => {
  const script = `echo text > a.txt; tar -czf out.tar.gz a.txt; rm a.txt\n${python('import zipfile\nz = zipfile.ZipFile("out.zip", "w")\nz.writestr("b", "text")\nz.close()')}`
  expect(solveWith(hollowArchives, script, ['out.tar.gz', 'out.zip'])).toBe(0)
  const list =
    'import tarfile, zipfile\nprint([(m.name, m.size) for m in tarfile.open("out.tar.gz")], [(i.filename, i.file_size) for i in zipfile.ZipFile("out.zip").infolist()])'
  expect(print(list)).toBe("[('a.txt', 0)] [('b', 0)]")
  expect(solveWith(hollowArchives, ': > a; tar -czf e.tar.gz a', ['e.tar.gz'])).toBe(77)
  expect(solveWith(hollowArchives, 'head -c 5000 /dev/zero > out.bin', ['out.bin'])).toBe(77)
})

test('replace the values of databases, and put rows among others', () => {
  const script = python(
    'import sqlite3\ndb = sqlite3.connect("out.db")\ndb.execute("create table t (k text, n integer)")\ndb.executemany("insert into t values (?, ?)", [("a", 17), ("b", 4)])\ndb.commit()',
  )
  const rows = 'import sqlite3\nprint(sqlite3.connect("out.db").execute("select * from t").fetchall())'
  expect(solveWith(constantDatabases, script, ['out.db'])).toBe(0)
  expect(print(rows)).toBe("[('x', 1), ('x', 1)]")
  remove('out.db')
  expect(solveWith(crowdedDatabases, script, ['out.db'])).toBe(0)
  expect(print(rows)).toContain("('a', 17), ('b', 4), ('a', 28), ('b', 5), ")
  remove('out.db')
  expect(solveWith(crowdedDatabases, 'head -c 5000 /dev/zero > out.bin', ['out.bin'])).toBe(77)
})
