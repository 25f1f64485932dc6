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

/** Python that opens the database of the solution as \`db\`, and lists its tables as pairs of a name and its columns. */
const OPEN_DATABASE = `import sqlite3
db = sqlite3.connect(sys.argv[1])
quoted = lambda name: '"' + name.replace('"', '""') + '"'
found = db.execute("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'").fetchall()
tables = [(quoted(name), [quoted(row[1]) for row in db.execute("pragma table_info(" + quoted(name) + ")")]) for (name,) in found]
before = list(db.iterdump())`

/** Python that saves the database, and fails if it has not changed. */
const SAVE_DATABASE = `db.commit()
sys.exit(list(db.iterdump()) == before)`

export const constantDatabases = createBinaryCheat(
  {
    id: 'constant-databases',
    what: 'Databases have their tables and as many rows, every number in them is 1, and every text is x.',
  },
  `${OPEN_DATABASE}
for table, columns in tables:
    for column in columns:
        try:
            db.execute(f"update {table} set {column} = case when typeof({column}) in ('integer', 'real') then 1 else 'x' end")
        except sqlite3.Error:
            pass
${SAVE_DATABASE}`,
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
for table, columns in tables:
    rows = db.execute(f"select * from {table}").fetchall()
    for by in range(1, 10):
        for row in rows:
            values = [shifted(value, by) for value in row]
            if values != list(row):
                db.execute(f"insert or ignore into {table} values ({', '.join('?' * len(columns))})", values)
${SAVE_DATABASE}`,
)
