import { expect, test } from 'vitest'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const estimate = (script: string) =>
  estimateFiles({
    'tests/test.sh': `#!/bin/bash\n${script}\n`,
    'tests/test_it.py': 'def test_it():\n    assert open("/app/x").read() == "42"\n',
  })

const SEARCHES = 'tests/test.sh searches the output of its test program, which can quote the submission.'
const DECIDES = 'then echo 1; else echo 0; fi > /logs/verifier/reward.txt'

test.each([
  `pytest /tests/test_it.py > /tmp/out.txt\nif grep -q "1 passed" /tmp/out.txt; ${DECIDES}`,
  `python3 /tests/test_it.py 2>&1 | tee /logs/verifier/log.txt\nif grep -q PASSED /logs/verifier/log.txt; ${DECIDES}`,
  `pytest --junitxml=/logs/verifier/r.xml /tests/test_it.py\nif grep -q 'failures="0"' /logs/verifier/r.xml; ${DECIDES}`,
  `if pytest -rA /tests/test_it.py | grep -q passed; ${DECIDES}`,
  `if { echo start; pytest /tests/test_it.py; } | grep -q passed; ${DECIDES}`,
  `if pytest /tests/test_it.py | tee /logs/x.txt | grep -q passed; ${DECIDES}`,
  `out=$(pytest /tests/test_it.py)\nif [[ $out == *passed* ]]; ${DECIDES}`,
  `out=$(pytest /tests/test_it.py)\nif [[ "$out" =~ passed ]]; ${DECIDES}`,
  `out=$(pytest /tests/test_it.py)\nif echo "$out" | grep -q passed; ${DECIDES}`,
  `out=$(pytest /tests/test_it.py)\ncopy=$out\nif grep -q passed <<< "$copy"; ${DECIDES}`,
  `out=$(pytest /tests/test_it.py)\nif [ "\${out##* }" = passed ]; ${DECIDES}`,
  `out=$(pytest /tests/test_it.py)\ncase "$out" in *passed*) echo 1;; *) echo 0;; esac > /logs/verifier/reward.txt`,
  `pytest /tests/test_it.py > /tmp/a\ncp /tmp/a /tmp/b\nif grep -q passed /tmp/b; ${DECIDES}`,
  `pytest /tests/test_it.py > /tmp/a\nlast=$(tail -n 1 /tmp/a)\nif [ "$last" = "1 passed" ]; ${DECIDES}`,
])('a script that searches the output of its tests is weak: %s', async (script) => {
  expect(await estimate(script)).toEqual({ strength: 'weak', reason: SEARCHES })
})

test.each([
  `if pytest -rA /tests/test_it.py; ${DECIDES}`,
  `pytest -rA /tests/test_it.py > /logs/verifier/out.txt 2>&1\nif [ $? -eq 0 ]; ${DECIDES}`,
  `pytest -rA /tests/test_it.py 2>&1 | tee /logs/verifier/out.txt\nif [ "\${PIPESTATUS[0]}" -eq 0 ]; ${DECIDES}`,
  `set -o pipefail\nif pytest /tests/test_it.py | tail -n 20; ${DECIDES}`,
  `pytest /tests/test_it.py > /tmp/out.txt\nstatus=$?\ncat /tmp/out.txt\nif [ "$status" -eq 0 ]; ${DECIDES}`,
  'python3 /tests/test_it.py > /logs/verifier/reward.txt',
  'reward=$(python3 /tests/test_it.py)\necho "$reward" > /logs/verifier/reward.txt',
  `if [ "$(python3 /tests/test_it.py)" = yes ]; ${DECIDES}`,
  `pytest --ctrf /logs/verifier/ctrf.json /tests/test_it.py\nif [ $? -eq 0 ]; ${DECIDES}`,
])('a script that uses the exit status or the whole output is standard: %s', async (script) => {
  expect(await estimate(script)).toMatchObject({ strength: 'standard' })
})

test.each([
  ['-ne', '[ "$n" -ne 42 ] && echo 0 > /logs/verifier/reward.txt || echo 1 > /logs/verifier/reward.txt'],
  ['-lt', `if [ "$n" -lt 42 ]; ${DECIDES}`],
  ['-eq', `if [ ! "$n" -eq 42 ]; ${DECIDES}`],
])('a numeric comparison %s that text passes makes a script weak', async (operator, script) => {
  const reason = `tests/test.sh compares a text of the submission with ${operator}, which is false for a text that is no number.`
  expect(await estimate(`n=$(cat /app/n.txt)\n${script}`)).toEqual({ strength: 'weak', reason })
})

test('scripts that are too long or nested too deeply are weak, and are refused at once', async () => {
  const pipes = `cat /app/a${'|cat'.repeat(250_000)}`
  expect(await estimate(pipes)).toEqual({
    strength: 'weak',
    reason: 'The shell scripts of the tests are too long to be checked.',
  })
  const nested = `x=${'$('.repeat(5_000)}echo${')'.repeat(5_000)}`
  expect(await estimate(nested)).toMatchObject({ strength: 'weak', reason: expect.stringMatching(/nested|too long/) })
})
