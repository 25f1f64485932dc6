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

/** A script that creates a database. */
const createDatabase = (...statements: string[]) =>
  python(
    `import sqlite3\ndb = sqlite3.connect("out.db")\n${statements.map((s) => `db.execute("${s}")\n`).join('')}db.commit()`,
  )
const printTable = (table = 't') =>
  print(`import sqlite3\nprint(sqlite3.connect("out.db").execute("select * from ${table}").fetchall())`)

test('replace the values of databases', () => {
  const script = createDatabase(
    'create table t (k text, n integer, e text, b blob)',
    "insert into t values ('a', 17, null, x'07'), ('b', 4, null, null)",
  )
  expect(solveWith(constantDatabases, script, ['out.db'])).toBe(0)
  expect(printTable()).toBe(String.raw`[('x', 1, None, b'\x07'), ('x', 1, None, None)]`)
  remove('out.db')
  const withRightTable = [script, createDatabase('create table u (n)', 'insert into u values (1)')].join('\n')
  expect(solveWith(constantDatabases, withRightTable, ['out.db'])).toBe(77)
})

test('put the rows of databases between others', () => {
  const script = createDatabase('create table t (k text, n integer)', "insert into t values ('a', 17), ('b', 4)")
  expect(solveWith(crowdedDatabases, script, ['out.db'])).toBe(0)
  const rows = printTable()
  expect(rows).toMatch(/^\[\('a', 28\), \('b', 5\), .*\('b', 8\), \('a', 17\), \('b', 4\), \('a', 62\), /)
  expect(rows.match(/\(/g)).toHaveLength(20)
  remove('out.db')
  expect(solveWith(crowdedDatabases, 'head -c 5000 /dev/zero > out.bin', ['out.bin'])).toBe(77)
})

test('keep the right rows between others despite keys, large numbers, triggers and generated columns', () => {
  const script = createDatabase(
    'create table t (id integer primary key, n integer, twice generated always as (n * 2))',
    'create table u (id integer)',
    'insert into t (id, n) values (1, 5), (2, 7)',
    'insert into u values (1234567890123456789)',
    "create trigger r before insert on t when new.n = 6 begin select raise(abort, 'no'); end",
  )
  expect(solveWith(crowdedDatabases, script, ['out.db'])).toBe(0)
  expect(printTable()).toMatch(/^\[\(0, .*\(1, 5, 10\), \(2, 7, 14\), /)
  expect(printTable('u')).toMatch(/^\[\(2345678901234567890,\), .*\(1234567890123456789,\), /)
})

test('leave no table of a database with only right rows', () => {
  const script = createDatabase(
    'create table t (n integer)',
    'create table u (k text)',
    'insert into t values (5)',
    "insert into u values ('red')",
  )
  expect(solveWith(crowdedDatabases, script, ['out.db'])).toBe(77)
})
