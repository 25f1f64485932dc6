import { createUndoneSolutionCheat } from './altered-solutions.ts'
import type { Cheat } from './cheat.ts'

// Wrong answers in archives and databases. They are written with Python, and do not apply in an image without it.

/** Creates a cheat that replaces the archives or databases of the solution with a program in Python. */
const createBinaryCheat = (cheat: Pick<Cheat, 'id' | 'what'>, program: string): Cheat =>
  createUndoneSolutionCheat(
    cheat,
    `command -v python3 > /dev/null || leave
altered=$(mktemp)
changed=
for file in $binaries; do
  cp "$right$file" "$altered"
  python3 - "$altered" << 'PYTHON' || continue
import sys
${program}
PYTHON
  changed=1
  put "$file" < "$altered"
done 2> /dev/null
rm -f "$altered"
[ -n "$changed" ] && exit 0
leave`,
  )

export const hollowArchives = createBinaryCheat(
  {
    id: 'hollow-archives',
    what: 'Archives have all their names, and every file in them is empty, for tests that only list them.',
  },
  `import io, tarfile, zipfile
path = sys.argv[1]
if zipfile.is_zipfile(path):
    members = zipfile.ZipFile(path).infolist()
    assert any(member.file_size for member in members)
    with zipfile.ZipFile(path, "w") as archive:
        for member in members:
            archive.writestr(member.filename, "")
else:
    with open(path, "rb") as file:
        mode = {b"\\x1f\\x8b": "w:gz", b"BZ": "w:bz2", b"\\xfd7": "w:xz"}.get(file.read(2), "w")
    members = tarfile.open(path).getmembers()
    assert any(member.size for member in members)
    with tarfile.open(path, mode) as archive:
        for member in members:
            member.size = 0
            archive.addfile(member, io.BytesIO())`,
)

/**
 * Python that opens the database of the solution as `db`, and reads the rows of each table as `before`. Tables are pairs
 * of a name and its columns, without generated ones.
 */
const OPEN_DATABASE = `import sqlite3
db = sqlite3.connect(sys.argv[1])
quoted = lambda name: '"' + name.replace('"', '""') + '"'
found = db.execute("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'").fetchall()
tables = [(quoted(name), [quoted(row[1]) for row in db.execute("pragma table_info(" + quoted(name) + ")")]) for (name,) in found]
read = lambda table, columns: db.execute(f"select {', '.join(columns)} from {table}").fetchall()
before = [read(*table) for table in tables]
assert any(before)`

export const constantDatabases = createBinaryCheat(
  {
    id: 'constant-databases',
    what: 'Databases have their tables and as many rows, every number in them is 1, and every text is x.',
  },
  `${OPEN_DATABASE}
for table, columns in tables:
    for column in columns:
        try:
            db.execute(f"update {table} set {column} = case typeof({column}) when 'text' then 'x' else 1 end where typeof({column}) in ('integer', 'real', 'text')")
        except sqlite3.Error:
            pass
db.commit()
for table, rows in zip(tables, before):
    # A table that is unchanged may be all that the tests check.
    assert not rows or read(*table) != rows`,
)

export const crowdedDatabases = createBinaryCheat(
  {
    id: 'crowded-databases',
    what: 'Rows of databases are among nine others with different digits, for tests that search them for the right one.',
  },
  `${OPEN_DATABASE}
def shifted(value, by):
    text = "".join(str((int(c) + by) % 10) if c in "0123456789" else c for c in str(value))
    return type(value)(text) if isinstance(value, (int, float, str)) else value
def insert(conflict, table, columns, rows):
    for row in rows:
        try:
            db.execute(f"insert or {conflict} into {table} ({', '.join(columns)}) values ({', '.join('?' * len(columns))})", row)
        except (sqlite3.Error, OverflowError):
            pass
def crowd(table, columns, rows, shifts):
    for by in shifts:
        others = [tuple(shifted(value, by) for value in row) for row in rows]
        insert("ignore", table, columns, [other for other, row in zip(others, rows) if other != row])
for (table, columns), rows in zip(tables, before):
    db.execute(f"delete from {table}")
    crowd(table, columns, rows, range(1, 5))
    insert("replace", table, columns, rows)
    crowd(table, columns, rows, range(5, 10))
db.commit()
for table, rows in zip(tables, before):
    # A test that reads one row must not find the right one.
    assert not rows or read(*table)[:1] != rows[:1]`,
)
