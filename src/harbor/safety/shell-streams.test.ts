import { expect, test } from 'vitest'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const estimate = (lines: string) =>
  estimateFiles({
    'environment/Dockerfile': 'FROM debian:bookworm-slim\nWORKDIR /app\n',
    'tests/test.sh': `#!/bin/bash\n${lines}\necho $? > /logs/verifier/reward.txt\n`,
  })

test.each([
  `jq -es '.[0] == .[1]' /app/out.json /tests/expected.json > /dev/null`,
  `jq -ne '[inputs] | .[0] == .[1]' /app/out.json /tests/expected.json > /dev/null`,
  `cd /app; jq -es '.[0] == .[1]' out.json /tests/expected.json > /dev/null`,
  `paste /app/out /tests/expected | awk '$1 != $2 { exit 1 }'`,
  `paste -d, <(sort /app/out) <(sort /tests/expected) | awk -F, '$1 != $2 { exit 1 }'`,
  `[ "$(paste -d= /app/out /tests/expected | awk -F= '$1 == $2' | wc -l)" = 5 ]`,
  `awk 'NR==FNR { got[FNR] = $1; next } got[FNR] != $1 { exit 1 }' /app/out /tests/expected`,
  `[ "$(sort /app/out /tests/expected | uniq -d | wc -l)" = 5 ]`,
  `[ "$(cat /tests/expected /app/out | sort | uniq -u | wc -l)" = 5 ]`,
  `[ "$(md5sum /app/out /tests/expected | cut -d' ' -f1 | uniq | wc -l)" = 1 ]`,
  `[ "$(grep -h '^total' /app/out /tests/expected | sort | uniq -d | wc -l)" = 1 ]`,
  `{ cat /app/out; cat /tests/expected; } | sort | uniq -d > /tmp/both; [ "$(wc -l < /tmp/both)" = 5 ]`,
  `cat /app/out > /tmp/both; cat /tests/expected >> /tmp/both; [ "$(sort /tmp/both | uniq -d | wc -l)" = 5 ]`,
  `sed 's/;//' /app/out.json > /tmp/got.json; jq -es '.[0] == .[1]' /tmp/got.json /tests/expected.json > /dev/null`,
  `work=$(mktemp -d); cat /app/out > "$work/got"; paste "$work/got" /tests/expected | awk '$1 != $2 { exit 1 }'`,
  `got=$(cat /app/out); echo "$got 3.14" | awk '{ d = $1 - $2; exit !(d * d < 0.01) }'`,
  `got=$(cat /app/out); awk '{ exit !($1 == $2) }' <<< "$got $(cat /tests/expected)"`,
  `got=$(cat /app/out); printf '%s %s\\n' "$got" 5 | awk '{ exit !($1 == $2) }'`,
  `pairs() { paste "$1" "$2"; }; pairs /app/out /tests/expected | awk '$1 != $2 { exit 1 }'`,
])('a script that joins the submission with what it expects is weak: %s', async (lines) => {
  const reason =
    'tests/test.sh joins texts of the submission and of the tests, so that the submission can pose as both.'
  expect(await estimate(lines)).toEqual({ strength: 'weak', reason })
})

test.each([
  `jq -es '.[0] == .[1]' /tests/expected.json /app/out.json > /dev/null`,
  `jq -e --slurpfile want /tests/expected.json '. == $want[0]' /app/out.json > /dev/null`,
  `paste /tests/expected /app/out | awk '$1 != $2 { exit 1 }'`,
  `cat /tests/header /app/out | cmp -s - /tests/expected`,
  `cat /app/out /tests/expected; cmp -s /app/out /tests/expected`,
  `diff <(sort /app/out) <(sort /tests/expected) > /dev/null`,
  `grep -qx -f /tests/pattern /app/out`,
  `got=$(cat /app/out); echo "3.14 $got" | awk '{ d = $1 - $2; exit !(d * d < 0.01) }'`,
  `got=$(cat /app/out); echo "$got" | awk '{ exit !($1 == 5) }'`,
  `got=$(cat /app/out); echo "the answer is $got, not 5" | tee /logs/verifier/log; cmp -s /app/out /tests/expected`,
])('a script that keeps the submission and what it expects apart is standard: %s', async (lines) => {
  expect(await estimate(lines)).toMatchObject({ strength: 'standard' })
})

test.each([
  'cd /tests/expected; cd /app/data; cmp -s a.csv /tests/expected/a.csv',
  'cd "/tests"; data=/app/data; cd "$data"; cmp -s a.csv /tests/a.csv',
  'cd /tests; diff <(cd /app/data; cat a.csv) /tests/a.csv > /dev/null',
  'check() { cd /app/data; cmp -s a.csv /tests/a.csv; }; cd /tests; check',
  'cd /tests; cd /app/data || true; cmp -s a.csv /tests/a.csv',
  'cd /tests; cd /app/data || echo missing; cmp -s a.csv /tests/a.csv',
])('a script that does not notice that cd to the submission fails is weak: %s', async (lines) => {
  const reason =
    'tests/test.sh goes on if cd to a folder of the submission fails, and then compares the tests with themselves.'
  expect(await estimate(lines)).toEqual({ strength: 'weak', reason })
})

test.each([
  'cd /app/data; cmp -s a.csv /tests/a.csv',
  'cd /tests; cd /app/data || exit 1; cmp -s a.csv /tests/a.csv',
  'cd /tests; cd /app/data && cmp -s a.csv /tests/a.csv',
  'set -eu; cd /tests; cd /app/data; cmp -s a.csv /tests/a.csv',
  'cd /tests; cmp -s a.csv /app/a.csv',
  'here=$(cd "$(dirname "$0")" && pwd); cd /app/data; cmp -s a.csv "$here/a.csv"',
])('a script that notices it, or starts from the submission, is standard: %s', async (lines) => {
  expect(await estimate(lines)).toMatchObject({ strength: 'standard' })
})
