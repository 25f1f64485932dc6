import { expect, test } from 'vitest'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const TOML = '[environment]\ndocker_image = "a/b"\nworkdir = "/app"\n'

/** Estimates tests in Python that use a text as a pattern, which must not be the submission's. */
const estimatePattern = (text: string, { line = 'python3 /tests/check.py', before = '', toml = TOML } = {}) =>
  estimateFiles({
    'task.toml': toml,
    'tests/test.sh': `#!/bin/bash\n${line} && echo 1 > /logs/verifier/reward.txt\n`,
    'tests/check.py': `import json, os, re, sys\n${before}\npattern = ${text}\nassert re.match(pattern, "42")\n`,
  })

test.each<[string, string, Parameters<typeof estimatePattern>[1]?]>([
  ['an argument', 'open(sys.argv[1]).read()', { line: 'python3 /tests/check.py /app/out' }],
  ['a computed argument', 'open(sys.argv[1]).read()', { line: 'python3 /tests/check.py "$out"' }],
  [
    'parsed arguments',
    'open(p.parse_args().file).read()',
    { line: 'python3 /tests/check.py --file /app/out', before: 'import argparse\np = argparse.ArgumentParser()' },
  ],
  ['standard input', 'sys.stdin.read()', { line: 'python3 /tests/check.py < /app/out' }],
  ['JSON from standard input', 'json.load(sys.stdin)["x"]', { line: 'cat /app/out | python3 /tests/check.py' }],
  ['a line of standard input', 'input()', { line: 'python3 /tests/check.py < /app/out' }],
  ['a path in the environment', 'open(os.environ["OUT"]).read()', { line: 'OUT=/app/out python3 /tests/check.py' }],
  ['a text in the environment', 'os.environ["OUT"]', { line: 'OUT="$(cat /app/out)" python3 /tests/check.py' }],
  ['an exported text', 'os.environ["OUT"]', { line: 'OUT="$(cat /app/out)"; export OUT; python3 /tests/check.py' }],
  ['a file of the current directory', '(Path.cwd() / "out").read_text()', { before: 'from pathlib import Path' }],
  ['an XML file', 'ET.parse("/app/out.xml").getroot().text', { before: 'import xml.etree.ElementTree as ET' }],
  [
    'settings',
    'c["a"]["b"]',
    { before: 'import configparser\nc = configparser.ConfigParser()\nc.read("/app/out.ini")' },
  ],
  ['a short function', 'read("/app/out")', { before: 'read = lambda name: open(name).read()' }],
  [
    'an artifact that every separate verifier gets',
    'open("/logs/artifacts/out.txt").read()',
    { toml: `${TOML}[verifier]\nenvironment_mode = "separate"\n` },
  ],
])('tests that use %s as a pattern are weak', async (_, text, options) => {
  expect(await estimatePattern(text, options)).toMatchObject({ strength: 'weak' })
})

const OUT = 'json.load(open("/app/out.json"))'
const CHECK = 'assert re.match(DATA["p"], "42")'

test.each([
  [
    'an attribute of a class',
    `class T:\n    OUT = "/app/out"\n    def test(self):\n        assert re.match(open(self.OUT).read(), "42")\n`,
  ],
  [
    'an attribute by the name of its class',
    `class T:\n    OUT: str = "/app/out"\n    def test(self):\n        assert re.match(open(T.OUT).read(), "42")\n`,
  ],
  [
    'an attribute that a class sets up',
    `class T:\n    @classmethod\n    def setup_class(cls):\n        cls.data = ${OUT}\n    def test(self):\n        assert re.match(self.data["p"], "42")\n`,
  ],
  [
    'a global variable',
    `DATA = None\ndef setup_module():\n    global DATA\n    DATA = ${OUT}\ndef test():\n    ${CHECK}\n`,
  ],
  [
    'cases of a test',
    `import pytest\nROWS = ${OUT}\n@pytest.mark.parametrize("row", ROWS)\ndef test(row):\n    assert re.match(row["p"], "42")\n`,
  ],
  [
    'cases of a test with names in a tuple',
    `import pytest\nDATA = ${OUT}\n@pytest.mark.parametrize(("name", "row"), DATA.items())\ndef test(name, row):\n    assert re.match(row, "42")\n`,
  ],
  [
    'cases of a test that are computed',
    `import pytest\n@pytest.mark.parametrize("row", list(${OUT}))\ndef test(row):\n    assert re.match(row, "42")\n`,
  ],
  [
    'a case of a match',
    `def test():\n    data = ${OUT}\n    match data:\n        case {"p": [first, *_], "q": "x"} if first:\n            assert re.match(first, "42")\n`,
  ],
  [
    'an asserted pattern',
    `import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertRegex("42", open("/app/out").read())\n`,
  ],
])('tests that use a submitted text through %s as a pattern are weak', async (_, code) => {
  const files = { 'task.toml': TOML, 'tests/check.py': `import json, re\n${code}` }
  const script = { 'tests/test.sh': '#!/bin/bash\npytest /tests/check.py && echo 1 > /logs/verifier/reward.txt\n' }
  expect(await estimateFiles({ ...files, ...script })).toMatchObject({ strength: 'weak' })
})

test.each<[string, string, Parameters<typeof estimatePattern>[1]?]>([
  ['an argument', 'open(sys.argv[1]).read()', { line: 'python3 /tests/check.py /tests/pattern.txt' }],
  ['standard input', 'sys.stdin.read()', { line: 'python3 /tests/check.py < /tests/pattern.txt' }],
  ['the environment', 'open(os.environ["TEST_DIR"] + "/pattern.txt").read()'],
])('tests that get a pattern of their own from %s are standard', async (_, text, options) => {
  expect(await estimatePattern(text, options)).toMatchObject({ strength: 'standard' })
})

test('tests that compare an argument of the submission with one of their own are standard', async () => {
  const files = {
    'task.toml': TOML,
    'tests/test.sh':
      '#!/bin/bash\npython3 /tests/check.py /app/out.json /tests/want.json && echo 1 > /logs/verifier/reward.txt\n',
    'tests/check.py':
      'import json, sys\ngot = json.load(open(sys.argv[1]))\nwant = json.load(open(sys.argv[2]))\nassert got["x"] == want["x"]\n',
  }
  expect(await estimateFiles(files)).toMatchObject({ strength: 'standard' })
})
