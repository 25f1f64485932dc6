import { expect, test } from 'vitest'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const estimate = (lines: readonly string[]) =>
  estimateFiles({
    'environment/Dockerfile': 'FROM debian:bookworm-slim\nWORKDIR /app\n',
    'tests/test.sh': '#!/bin/bash\npytest /tests/test_it.py\necho $? > /logs/verifier/reward.txt\n',
    'tests/test_it.py': `${lines.join('\n')}\n`,
  })

const READ = 'data = json.load(open("/app/out.json"))'
const WANT = 'want = json.load(open("/tests/want.json"))'
const PAIRS = 'for a, b in zip(data["rows"], want):'
const NAME = 'assert data["name"] == "sum"'

test.each([
  ['a condition', [READ, 'if abs(data["n"] - 3.5) > 0.01:', '    pytest.fail("wrong")']],
  ['a bound', [READ, NAME, 'if data["n"] < 3 or data["n"] > 4:', '    raise AssertionError']],
  ['a variable', [READ, 'error = abs(data["n"] - 3.5)', 'if error > 0.01:', '    sys.exit(1)']],
  ['a text', ['n = float(open("/app/n").read())', 'if abs(n - 3.5) > 0.01:', '    raise ValueError(n)']],
  ['a list of faults', [READ, WANT, PAIRS, '    if abs(a - b) > 1:', '        faults.append(a)', 'assert not faults']],
  [
    'a function',
    [
      'def ok(x, y):',
      '    if abs(x - y) > 1:',
      '        return False',
      '    return True',
      READ,
      'assert ok(data["n"], 4.0)',
    ],
  ],
  ['any', [READ, WANT, 'assert not any(abs(a - b) > 1 for a, b in zip(data["rows"], want))']],
  ['not', [READ, 'assert not abs(data["n"] - 3.5) > 0.01']],
  [
    'wrong entries',
    [READ, WANT, 'wrong = [a for a, b in zip(data["rows"], want) if abs(a - b) > 1]', 'assert not wrong'],
  ],
  ['the largest error', [READ, WANT, 'assert max(abs(a - b) for a, b in zip(data["rows"], want)) < 0.1']],
  [
    'the largest error, kept',
    [READ, WANT, 'worst = 0', PAIRS, '    worst = max(worst, abs(a - b))', 'assert worst < 1'],
  ],
  ['the smallest value', [READ, NAME, 'assert min(data["rows"]) >= 0.9']],
])('tests that NaN of the submission passes are weak: %s', async (_, lines) => {
  const reason = 'tests/test_it.py accepts NaN of the submission as a number within bounds.'
  expect(await estimate(lines)).toEqual({ strength: 'weak', reason })
})

test.each([
  ['an assertion', [READ, 'assert abs(data["n"] - 3.5) < 0.01']],
  ['a range', [READ, NAME, 'if not 3 <= data["n"] <= 4:', '    raise AssertionError']],
  [
    'a check of the number',
    [READ, 'assert math.isfinite(data["n"])', 'if abs(data["n"] - 3.5) > 1:', '    pytest.fail("no")'],
  ],
  ['a length', [READ, NAME, 'if len(data["rows"]) < 3:', '    pytest.fail("short")']],
  ['whole numbers', ['n = int(open("/app/n").read())', 'if n > 3:', '    raise ValueError(n)', 'assert n == 2']],
  [
    'a count',
    [
      'text = open("/app/n").read()',
      'found = text.count("x")',
      'if found < 3:',
      '    raise ValueError',
      'assert "xyz" in text',
    ],
  ],
  ['a value of the tests', [READ, WANT, 'if want[0] > 3:', '    raise ValueError', 'assert data == want']],
  ['a skipped case', [READ, WANT, 'if data["n"] > 3:', '    print("large")', 'assert data["n"] == 4']],
  [
    'pixels',
    [
      'image = cv2.imread("/app/out.png")',
      'if image.mean() > 10:',
      '    raise ValueError',
      'assert image.tobytes() == WANT',
    ],
  ],
])('tests that NaN does not pass are standard: %s', async (_, lines) => {
  expect(await estimate(lines)).toMatchObject({ strength: 'standard' })
})

test.each([
  ['pictures', ['h = min(got.shape[0], want.shape[0])', 'assert (got[:h] == want[:h]).all()']],
  ['sides of a picture', ['w = min(got.width, want.width)', 'assert list(got.crop((0, 0, w, 9)).getdata()) == WANT']],
  ['sizes', ['size = [min(a, b) for a, b in zip(got.size, want.size)]', 'assert got.crop((0, 0, *size)) == want']],
  ['lists', ['for i in range(min(len(rows), len(WANT))):', '    assert rows[i] == WANT[i]']],
  ['points', ['for a, b in zip(got.getdata(), want.getdata()):', '    assert a == b']],
])('tests that compare only the part that two values have in common are weak: %s', async (_, lines) => {
  const reason = 'tests/test_it.py compares only the part that two values have in common.'
  expect(await estimate(lines)).toEqual({ strength: 'weak', reason })
})

test.each([
  ['a shape', ['assert got.shape == want.shape', 'h = min(got.shape[0], 9)', 'assert (got[:h] == want[:h]).all()']],
  [
    'a length',
    ['assert len(rows) == len(WANT)', 'for i in range(min(len(rows), 9)):', '    assert rows[i] == WANT[i]'],
  ],
])('tests that also compare the size are standard: %s', async (_, lines) => {
  expect(await estimate(lines)).toMatchObject({ strength: 'standard' })
})
