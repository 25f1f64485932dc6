import { expect, test } from 'vitest'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const estimate = (lines: readonly string[]) =>
  estimateFiles({
    'environment/Dockerfile': 'FROM debian:bookworm-slim\nWORKDIR /app\n',
    'tests/test.sh': '#!/bin/bash\npytest /tests/test_it.py\necho $? > /logs/verifier/reward.txt\n',
    'tests/test_it.py': `${lines.join('\n')}\n`,
  })

const weak = (reason: string) => ({ strength: 'weak', reason: `tests/test_it.py ${reason}.` })

const READ = 'text = open("/app/letter.txt").read()'
const CASES = 'CASES = json.load(open("/tests/cases.json"))'
const EACH = [CASES, 'for case in CASES:']

test.each([
  ['format', [READ, ...EACH, '    assert text.format(**case) == case["expected"]']],
  ['format_map', [READ, ...EACH, '    assert text.format_map(case) == case["expected"]']],
  ['an attribute', [READ, 'for case in CASES:', '    assert text.strip().format(case=case) == case.expected']],
  ['a file that is read in place', [...EACH, '    assert open("/app/a").read().format(**case) == case["expected"]']],
  ['Template', [READ, ...EACH, '    assert string.Template(text).substitute(case) == case["expected"]']],
  [
    'a variable',
    ['t = Template(open("/app/a").read())', ...EACH, '    assert t.safe_substitute(case) == case["want"]'],
  ],
  ['a percent sign', [READ, ...EACH, '    assert text % case == case["expected"]']],
  ['a field', ['data = json.load(open("/app/a"))', 'assert data["line"].format(x=1, want="x 1") == "x 1"']],
])('a template of the submission that tests fill in makes them weak: %s', async (_, lines) => {
  expect(await estimate(lines)).toEqual(weak('fills in a template of the submission'))
})

test.each([
  ['a template of the tests', ['n = open("/app/n").read()', 'assert "n = {}".format(n) == "n = 17"']],
  ['a remainder', ['n = int(open("/app/n").read())', 'k = 5', 'assert n % k == 3', 'assert n == 18']],
  ['a template of the tests in a file', [READ, 'assert open("/tests/t").read().format(n=7) == text']],
])('tests that fill in something else only read: %s', async (_, lines) => {
  expect(await estimate(lines)).toMatchObject({ strength: 'standard' })
})

const CONNECT = 'conn = sqlite3.connect("/app/out.db")'

test.each([
  ['a table', [CONNECT, 'conn.execute("CREATE TABLE expected (id, n)")']],
  ['rows', [CONNECT, 'conn.executemany("INSERT INTO expected_totals VALUES (?, ?)", ROWS)']],
  ['a database', [CONNECT, 'conn.execute("ATTACH DATABASE \'/tests/expected.db\' AS ref")']],
  ['a cursor', [CONNECT, 'cursor = conn.cursor()', 'cursor.execute("create view wanted as select 1")']],
])('expected values in a database of the submission make tests weak: %s', async (_, lines) => {
  const all = [...lines, 'assert conn.execute("SELECT n FROM totals").fetchall() == [(17,)]']
  expect(await estimate(all)).toEqual(weak('puts expected values into a database of the submission'))
})

test.each([
  ['inputs', [CONNECT, 'conn.execute("INSERT INTO orders VALUES (3)")']],
  ['a temporary table', [CONNECT, 'conn.execute("CREATE TEMP TABLE ids (n)")']],
  ['a database of the tests', ['conn = sqlite3.connect(":memory:")', 'conn.execute("CREATE TABLE expected (n)")']],
])('other statements only read: %s', async (_, lines) => {
  const all = [...lines, 'assert conn.execute("SELECT n FROM totals").fetchall() == [(17,)]']
  expect(await estimate(all)).toMatchObject({ strength: 'standard' })
})

test('entries that are passed by position can set what the tests expect', async () => {
  const close = ['def close(total, expected=17):', '    return abs(total - expected) < 0.1']
  const data = 'data = json.load(open("/app/x.json"))'
  expect(await estimate([...close, data, 'assert close(*data)'])).toEqual(
    weak('compares the submission only with itself'),
  )
  expect(await estimate([...close, data, 'assert close(data["total"])'])).toMatchObject({ strength: 'standard' })
})

test('attributes that the submission names can replace those of the tests', async () => {
  const loop = ['for key, value in json.load(open("/app/x.json")).items():', '    setattr(report, key, value)']
  const compare = 'assert report.total == report.expected'
  expect(await estimate([...loop, compare])).toEqual(weak('sets an attribute that the submission can name'))
  const named = ['data = json.load(open("/app/x.json"))', 'setattr(report, "total", data["total"])']
  expect(await estimate([...named, 'assert data["total"] == 17'])).toMatchObject({ strength: 'standard' })
})
