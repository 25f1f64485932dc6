import { expect, test } from 'vitest'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const estimate = (lines: readonly string[], dockerfile = 'FROM debian:bookworm-slim\nWORKDIR /app\n') =>
  estimateFiles({
    'environment/Dockerfile': dockerfile,
    'tests/test.sh': '#!/bin/bash\npytest /tests/test_it.py\necho $? > /logs/verifier/reward.txt\n',
    'tests/test_it.py': `${lines.join('\n')}\n`,
  })

const weak = (reason: string) => ({ strength: 'weak', reason: `tests/test_it.py ${reason}.` })

test.each([
  ['a variable', ['data = json.load(open("/app/x.json"))', 'name = data["x"]', 'open(name)']],
  [
    'a line',
    ['for line in Path("/app/list").read_text().splitlines():', '    assert open(line.strip()).read() == "a"'],
  ],
  ['a tuple', ['BASE = Path("/app")', 'one, two = (BASE / "a.txt").read_text().split()', 'path = BASE / one']],
  ['a fixture', ['def test_it(manifest):', '    name = manifest["x"]', '    text = (APP_DIR / name).read_text()']],
  ['a parameter', ['def read(name):', '    return open(name).read()', 'read(json.load(open("/app/x"))["f"])']],
  ['a keyword', ['def read(*, name):', '    return open(name)', 'read(name=open("/app/x").read())']],
  [
    'a list',
    ['names = []', 'for row in csv.reader(open("/app/x")):', '    names.append(row[0])', 'pd.read_csv(names[0])'],
  ],
  ['a folder', ['data = json.load(open("/app/x.json"))', 'os.chdir(data["dir"])']],
  ['a condition', ['data = json.load(open("/app/x.json"))', 'path = data["x"]', 'assert os.path.exists(path)']],
  ['a search', ['name = open("/app/x").read()', 'assert glob.glob("/tests/" + name)']],
  ['a comprehension', ['rows = json.load(open("/app/x"))', 'texts = [open(p).read() for p in rows]']],
  ['a function that is mapped', ['rows = json.load(open("/app/x"))', 'paths = map(Path, rows)']],
  ['a reader that is passed on', ['rows = json.load(open("/app/x"))', 'files = [f.read() for f in map(open, rows)]']],
  ['a partial function', ['read = functools.partial(open, encoding="utf-8")', 'read(json.load(open("/app/x"))["a"])']],
  ['another name of a reader', ['read = open', 'read(json.load(open("/app/x"))["a"])']],
  ['an f-string', ['name = open("/app/x").read()', 'open(f"/app/{name}")']],
  [
    'a function that reads',
    [
      'def load(p):',
      '    with open(p) as f:',
      '        return json.load(f)',
      'e = load("/app/a")',
      'q = e["b"]',
      'Path(q)',
    ],
  ],
  [
    'an attribute',
    ['class A:', '    def setUp(self):', '        self.n = open("/app/x").read()', '        open(self.n)'],
  ],
])('a file name that reaches the reading call through %s makes tests weak', async (_, lines) => {
  expect(await estimate(lines)).toEqual(weak('reads files that the submission can name'))
})

test.each([
  ['text', ['sql = open("/app/q.sql").read()', 'rows = db.execute(sql).fetchall()']],
  ['script', ['with open("/app/q.sql") as f:', '    sql = f.read()', 'cursor.executescript(sql)']],
  ['part of a statement', ['q = Path("/app/q.sql").read_text()', 'db.execute(f"select * from ({q})")']],
  ['argument', ['def run(q):', '    return db.execute(q)', 'run(Path("/app/q.sql").read_text())']],
  ['frame', ['frame = pd.read_sql_query(open("/app/q.sql").read(), db)']],
])('SQL of the submission as a %s makes tests weak', async (_, lines) => {
  expect(await estimate(lines)).toEqual(weak('executes SQL statements of the submission'))
})

test.each([
  ['texts', ['assert open("/app/a").read() == open("/app/b").read()']],
  ['unequal texts', ['if open("a.txt").read() != open("b.txt").read():', '    raise SystemExit(1)']],
  [
    'derived values',
    [
      'a = json.load(open("/app/in"))',
      'b = json.load(open("/app/out"))',
      'n = sum(x["n"] for x in a)',
      'assert b["n"] == n',
    ],
  ],
  [
    'a sum without spaces',
    ['d=[float(x) for x in open("/app/in.txt")]', 'o=float(open("/app/out.txt").read())', 'assert abs(sum(d)-o)<1e-6'],
  ],
  ['arrays', ['a = np.load("/app/a.npy")', 'b = np.load("/app/b.npy")', 'assert np.max(np.abs(a - b)) < 1']],
  ['numbers', ['a = float(open("/app/a").read())', 'b = float(open("/app/b").read())', 'assert abs(a - b) < 1']],
  ['files', ['assert filecmp.cmp("/app/a", "/app/b", shallow=False)']],
  [
    'counts of entries',
    [
      ...['counts = {}', 'for name in open("/app/in"):', '    counts[name] = counts.get(name, 0) + 1'],
      ...['got = json.load(open("/app/out.json"))', 'assert got == counts'],
    ],
  ],
  ['a similarity', ['a = open("/app/a").read()', 'SequenceMatcher(None, a, open("/app/b").read()).ratio()']],
  ['rows side by side', ['for a, b in zip(open("/app/a"), open("/app/b")):', '    assert a == b']],
  ['frames', ['a = pd.read_csv("/app/a.csv")', 'assert a.equals(pd.read_csv("/app/b.csv"))']],
  [
    'paths in constants',
    ['OUT = "/app/o"', 'IN = "/app/i"', 'assert Path(OUT).read_text() == Path(IN).read_text().upper()'],
  ],
  ['read by a function', ['def read(p):', '    return Path(p).read_text()', 'assert read("/app/a") == read("/app/b")']],
  [
    'fixtures',
    [
      ...[
        'def given():',
        '    return pd.read_csv("/app/in.csv")',
        'def got():',
        '    return pd.read_csv("/app/out.csv")',
      ],
      ...['def test_it(given, got):', '    pd.testing.assert_frame_equal(given, got)'],
    ],
  ],
])('a comparison of submitted files with each other makes tests weak: %s', async (_, lines) => {
  expect(await estimate(lines)).toEqual(weak('compares files of the submission with each other'))
})

test.each([
  ['expression', ['a = open("/app/x").read().strip()', 'assert re.search(a, "the secret")']],
  ['compiled expression', ['p = re.compile(Path("/app/x").read_text())', 'assert p.match("the secret")']],
  ['wildcard', ['a = open("/app/x").read().strip()', 'assert fnmatch.fnmatch("secret", a)']],
])('a pattern of the submission makes tests weak: %s', async (_, lines) => {
  expect(await estimate(lines)).toEqual(weak('uses a text of the submission as a pattern'))
})

test.each([
  ['validate', ['import jsonschema', 'jsonschema.validate({"a": 1}, json.load(open("/app/schema.json")))']],
  ['a validator', ['v = Draft7Validator(json.load(open("/app/schema.json")))']],
])('a schema of the submission makes tests weak: %s', async (_, lines) => {
  expect(await estimate(lines)).toEqual(weak('uses a schema of the submission'))
})

test.each([
  ['import', ['from support import load', 'assert load("/app/a") == load("/app/b")']],
  ['module', ['import support', 'assert support.load("/app/a") == support.load("/app/b")']],
])('values that another file of the tests returns are followed through an %s', async (_, lines) => {
  const files = {
    'environment/Dockerfile': 'FROM debian:bookworm-slim\nWORKDIR /app\n',
    'tests/test.sh': '#!/bin/bash\npytest /tests/test_it.py\necho $? > /logs/verifier/reward.txt\n',
    'tests/test_it.py': `${lines.join('\n')}\n`,
    'tests/support.py': 'def load(p):\n    return open(p).read()\n',
  }
  expect(await estimateFiles(files)).toEqual(weak('compares files of the submission with each other'))
})

test.each([
  ['a constant', ['assert open("/app/x").read() == "42"']],
  ['a pattern of the tests', ['assert re.search("[0-9]+", open("/app/x").read())']],
  ['an escaped text', ['a = open("/app/x").read()', 'assert re.search(re.escape(a), "b")']],
  ['a schema of the tests', ['jsonschema.validate(json.load(open("/app/x")), SCHEMA)']],
  ['a file of the tests', ['want = json.load(open("/tests/e.json"))', 'assert json.load(open("/app/o.json")) == want']],
  [
    'a file beside the tests',
    ['HERE = Path(__file__).parent', 'assert open("/app/x").read() == (HERE / "x").read_text()'],
  ],
  [
    'a file outside the submission',
    ['got = pd.read_csv("/app/o.csv")', 'assert got.equals(1) == pd.read_csv("/data/i.csv")'],
  ],
  ['names in the tests', ['for name in ["a.txt", "b.txt"]:', '    assert open(f"/app/{name}").read() == "x"']],
  [
    'names of the tests',
    ['c = json.load(open("/tests/c.json"))', 'name = c["file"]', 'assert open(name).read() == "x"'],
  ],
  ['listed files', ['for path in Path("/app").glob("*.txt"):', '    assert open(path).read() == "x"']],
  ['the name of a path', ['name = Path(open("/app/x").read()).name', 'assert name == "a.txt"']],
  ['an opened file', ['with open("/app/x.png", "rb") as f:', '    image = Image.open(f)']],
  ['a buffer', ['text = open("/app/x.csv").read()', 'rows = pd.read_csv(io.StringIO(text))']],
  ['a ratio', ['data = json.load(open("/app/x.json"))', 'n = data["n"]', 'ratio = len(rows) / n']],
  ['a bound value', ['n = open("/app/x").read()', 'db.execute("select * from t where a = ?", (n,))']],
  [
    'the same name in another function',
    ['def f():', '    name = open("/app/x").read()', 'def g():', '    name = "a"', '    open(name)'],
  ],
  ['members of an archive', ['z = zipfile.ZipFile("/app/x.zip")', 'for name in z.namelist():', '    z.open(name)']],
  [
    'a function that reads both',
    ['def load(p):', '    return Path(p).read_text()', 'assert load("/app/a.json") == load("/tests/a.json")'],
  ],
])('tests that use %s only read', async (_, lines) => {
  expect(await estimate(lines)).toMatchObject({ strength: 'standard' })
})

const LOAD = 'data = json.load(open("/app/x.json"))'
const DATABASE = 'db = sqlite3.connect("/app/x.db")'

test.each([
  ['two fields', [LOAD, 'assert data["total"] == data["sum"]']],
  ['a field and a calculation', [LOAD, 'assert data["total"] == sum(item["n"] for item in data["items"])']],
  ['a difference of fields', [LOAD, 'assert abs(data["mean"] - data["sum"] / data["n"]) < 0.1']],
  ['fields in variables', [LOAD, 'total = data["total"]', 'items = data["items"]', 'assert total == sum(items)']],
  ['a count of entries', [LOAD, 'assert data["count"] == len(data["items"])']],
  ['only order and uniqueness', [LOAD, 'assert data == sorted(data)', 'assert len(data) == len(set(data))']],
  ['another field with a constant', [LOAD, 'assert data["version"] == 2', 'assert data["a"] == data["b"]']],
  ['keys and types with constants', [LOAD, 'assert set(data.keys()) == {"a", "b"}', 'assert data["a"] == data["b"]']],
  ['a value in a variable', [LOAD, 'ok = data["a"] == data["b"]', 'assert ok']],
  ['a method', [LOAD, 'self.assertEqual(data["a"], data["b"])']],
  ['conditions of a script', [LOAD, 'if data["a"] != data["b"]:', '    sys.exit(1)']],
  [
    'two queries',
    [
      DATABASE,
      'a = db.execute("select sum(n) from a").fetchone()',
      'assert a == db.execute("select n from b").fetchone()',
    ],
  ],
  [
    'two cursors of a read-only database',
    [
      'cursor = sqlite3.connect("file:/app/x.db?mode=ro", uri=True).cursor()',
      'cursor.execute("select count(*) from a")',
      'n = cursor.fetchone()[0]',
      'cursor.execute("select count(*) from b")',
      'assert n == cursor.fetchone()[0]',
    ],
  ],
  ['columns', ['f = pd.read_csv("/app/x.csv")', 'assert (f["a"] == f["b"]).all()']],
  ['files that are read together', ['a, b = [open(p).read() for p in ("/app/a", "/app/b")]', 'assert a == b']],
  [
    'files that are read in a loop',
    [
      'texts = {}',
      'for name in ("a.txt", "b.txt"):',
      '    texts[name] = open(name).read()',
      'assert texts["a.txt"] == texts["b.txt"]',
    ],
  ],
  ['entries that are in an input', [LOAD, 'words = open("/app/in").read().split()', 'assert data[0] in words']],
  ['a set of an input', [LOAD, 'want = set(open("/app/in"))', 'missing = want - set(data)', 'assert not missing']],
  ['a subset of an input', [LOAD, 'want = set(open("/app/in"))', 'assert want <= set(data)']],
  ['equal entries', [LOAD, 'assert len(set(data["rows"])) == 1']],
  ['lengths of two files', ['assert len(open("/app/a").read()) == len(open("/app/b").read())']],
  ['expected values that data replaces', [LOAD, 'merged = {**EXPECTED, **data}', 'assert merged == data']],
  [
    'expected values that data updates',
    [LOAD, 'want = {"a": 1}', 'want.update(data)', 'assert data["a"] == want["a"]'],
  ],
  ['expected values that data is joined with', [LOAD, 'want = {"a": 1}', 'want |= data', 'assert want == data']],
  [
    'expected values that are arguments',
    [LOAD, 'def check(answer=None, expected=42):', '    assert answer == expected', 'check(**data)'],
  ],
])('contents that are compared only with themselves make tests weak: %s', async (_, lines) => {
  expect(await estimate(lines)).toEqual(weak('compares the submission only with itself'))
})

test.each([
  ['a constant', [LOAD, 'assert data["total"] == 42', 'assert data["total"] == sum(data["items"])']],
  [
    'a constant in another test',
    [LOAD, 'def test_a():', '    assert data == sorted(data)', 'def test_b():', '    assert data[0] == 7'],
  ],
  ['an expected set', [LOAD, 'assert data["ids"] == sorted(data["ids"])', 'assert not {"x", "y"} - set(data["ids"])']],
  ['an expected entry', [LOAD, 'assert data == sorted(data)', 'assert "x17" in data']],
  ['a pattern', ['text = open("/app/x").read()', 'assert text == text.strip()', 'assert re.search("total: 42", text)']],
  [
    'a file of the tests',
    [LOAD, 'assert data["a"] == data["b"]', 'assert data["a"] == json.load(open("/tests/e.json"))'],
  ],
  ['an own table by submitted keys', [LOAD, 'for name, n in data.items():', '    assert WANT[name] == n']],
  ['own values beside submitted ones', [LOAD, 'for got, want in zip(data, VALUES):', '    assert got == want']],
  [
    'a function that compares',
    [LOAD, 'def same(a, b):', '    assert abs(a - b) < 1', 'same(data["a"], 17)', 'same(data["a"], data["b"])'],
  ],
  [
    'a calculation with a file outside the submission',
    [LOAD, 'rows = pd.read_csv("/data/in.csv")', 'assert data["cost"] == cost(rows, data["limit"])'],
  ],
  [
    'a name of a table in the same database',
    [
      DATABASE,
      'name = db.execute("select name from sqlite_master").fetchone()[0]',
      'assert db.execute(f"select count(*) from {name}").fetchone()[0] == 42',
    ],
  ],
  [
    'conditions beside assertions',
    [LOAD, 'for a in data:', '    if a == data[0]:', '        continue', '    assert a["n"] > 0'],
  ],
  ['own words', [LOAD, 'assert any(word in data["a"] for word in WORDS), f"no {data}"']],
  ['what must differ', [LOAD, 'assert data["a"] != data["b"]']],
])('contents that are compared with %s only read', async (_, lines) => {
  expect(await estimate(lines)).toMatchObject({ strength: 'standard' })
})

test('contents may be compared with a value of the tests in another file', async () => {
  const files = {
    'environment/Dockerfile': 'FROM debian:bookworm-slim\nWORKDIR /app\n',
    'tests/test.sh': '#!/bin/bash\npytest /tests\necho $? > /logs/verifier/reward.txt\n',
    'tests/test_form.py': `${LOAD}\nassert data["total"] == sum(data["items"])\n`,
  }
  expect(await estimateFiles(files)).toMatchObject({ strength: 'weak' })
  const other = { 'tests/test_value.py': `${LOAD}\nassert data["total"] == 42\n` }
  expect(await estimateFiles({ ...files, ...other })).toMatchObject({ strength: 'standard' })
})

test.each([
  [
    'types and keys',
    [LOAD, 'for key in ("a", "b"):', '    assert key in data', 'assert isinstance(data["a"], (int, float))'],
  ],
  ['bounds', [LOAD, 'assert 0 <= data["a"] <= 1', 'assert data["n"] > 100']],
  [
    'lengths',
    ['lines = open("/app/x").read().splitlines()', 'assert len(lines) == 3', 'assert all(len(x) > 0 for x in lines)'],
  ],
  ['truth values', [LOAD, 'assert data["built"] == True', 'assert data["name"]', 'assert data["extra"] is None']],
  ['characters', ['text = open("/app/x").read().strip()', 'assert text.isdigit()', 'assert len(text) == 3']],
])('contents of which only the form is checked make tests weak: %s', async (_, lines) => {
  expect(await estimate(lines)).toEqual(weak('checks only the form of the submission'))
})

test.each([
  ['a value', [LOAD, 'assert data["a"] > 0', 'assert data["b"] == 17']],
  ['a count that the file has', ['count = int(open("/app/x").read())', 'assert count == 5']],
  ['a text in the file', ['assert "total: 17" in open("/app/x").read()']],
  ['a difference', [LOAD, 'assert abs(data["a"] - 17.5) < 0.1']],
  ['a value in a call', [LOAD, 'assert math.dist(data["point"], POINT) < 1']],
  ['an absent file', [LOAD, 'assert data', 'assert not os.path.exists("/app/secret")']],
  ['an own function', [LOAD, 'def near(a, b):', '    return a > b / 2 > a / 4', 'assert near(data["a"], 17)']],
  ['files that exist', ['assert os.path.exists("/app/a") and os.path.isdir("/app/b")']],
])('contents of which more than the form is checked only read: %s', async (_, lines) => {
  expect(await estimate(lines)).toMatchObject({ strength: 'standard' })
})

test('the form may be checked in one file and the values in another', async () => {
  const files = {
    'environment/Dockerfile': 'FROM debian:bookworm-slim\nWORKDIR /app\n',
    'tests/test.sh': '#!/bin/bash\npytest /tests\necho $? > /logs/verifier/reward.txt\n',
    'tests/test_form.py': `${LOAD}\nassert isinstance(data["total"], int)\n`,
  }
  expect(await estimateFiles(files)).toMatchObject({ strength: 'weak' })
  const other = { 'tests/test_value.py': `${LOAD}\nassert data["total"] == 42\n` }
  expect(await estimateFiles({ ...files, ...other })).toMatchObject({ strength: 'standard' })
})

test('every path may be submitted if the working directory is not known', async () => {
  const lines = ['assert open("/srv/a").read() == open("/srv/b").read()']
  expect(await estimate(lines)).toMatchObject({ strength: 'standard' })
  expect(await estimate(lines, 'FROM debian:bookworm-slim\n')).toMatchObject({ strength: 'weak' })
})

test('code that takes too long to follow is weak, and long lists of values are not', async () => {
  const tooLong = weak('is too long to be followed')
  expect(await estimate([`assert ${'a == '.repeat(20_000)}b`])).toEqual(tooLong)
  expect(await estimate([`x = ${'f('.repeat(20_000)}${')'.repeat(20_000)}`])).toEqual(tooLong)
  expect(await estimate([`VALUES = [${'1.5, "a", '.repeat(20_000)}]`])).toMatchObject({ strength: 'standard' })
})
