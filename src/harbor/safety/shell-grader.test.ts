import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const TOML = { 'task.toml': '[environment]\ndocker_image = "a/b"\nworkdir = "/app"\n[metadata.assay]\ngrader = true\n' }
const DROP = 'setpriv --reuid=1000 --regid=1000 --clear-groups --'
const KILL = `${DROP} bash -c 'kill -9 -1' < /dev/null`
const END = '[ "$reward" = 1 ] && echo 1 > /logs/verifier/reward.txt'

const estimate = (lines: string) =>
  estimateFiles({ ...TOML, 'tests/test.sh': `#!/bin/bash\n${lines}\n${END}\n`, 'tests/cases': '2 1\n' })

test.each([
  [
    'a loop over the cases whose input the program inherits',
    `while read -r want n; do got=$(${DROP} /app/run "$n"); [ "$got" = "$want" ] && reward=1; done < /tests/cases\n${KILL}`,
    'runs a program of the candidate with the input that it reads itself',
  ],
  [
    'the same with cases from a pipe',
    `cat /tests/cases | while read -r want n; do ${DROP} /app/run "$n" > /tmp/out; done\n${KILL}`,
    'runs a program of the candidate with the input that it reads itself',
  ],
  [
    'the same in a function',
    `run() { ${DROP} /app/run "$1"; }\nwhile read -r want n; do run "$n" > /tmp/out; done <<< "1 2"\n${KILL}`,
    'runs a program of the candidate with the input that it reads itself',
  ],
  [
    'a descriptor that stays open',
    `exec 3< /tests/cases\n${DROP} /app/run < /dev/null > /tmp/out\n${KILL}`,
    'opens a file that programs of the candidate inherit',
  ],
  [
    'a descriptor of a loop',
    `while read -r -u 4 want; do ${DROP} /app/run < /dev/null; done 4< /tests/cases\n${KILL}`,
    'opens a file that programs of the candidate inherit',
  ],
  [
    'expected values that everybody can read',
    `sort /tests/cases > /tmp/want\n${DROP} /app/run < /dev/null > /tmp/out\n${KILL}\ncmp -s /tmp/out /tmp/want && reward=1`,
    'writes to /tmp/want, which programs of the candidate can read',
  ],
  [
    'a copy of the expected values',
    `cp /tests/cases /tmp/want\n${DROP} /app/run < /dev/null > /tmp/out\n${KILL}`,
    'writes to /tmp/want, which programs of the candidate can read',
  ],
  [
    'a process that is left behind, which sees the arguments of other programs',
    `${DROP} /app/run < /dev/null > /tmp/out\ngrep -qx 42 /tmp/out && reward=1`,
    'does not end the processes of the candidate',
  ],
  [
    'a program in a script of its own',
    `bash -c '${DROP} /app/run > /tmp/out'\n${KILL}`,
    'runs programs of the candidate in a nested script',
  ],
  [
    'the exit status of the program as the reward',
    `${DROP} /app/run < /dev/null\necho $? > /logs/verifier/reward.txt\n${KILL}`,
    'writes a reward that the submission can choose',
  ],
])('a grader with %s is weak', async (_, lines, reason) => {
  expect(await estimate(lines)).toMatchObject({ strength: 'weak', reason: expect.stringContaining(reason) })
})

test.each([
  ['a loop', `while read -r want n; do ${DROP} /app/run "$n" < /dev/null > /tmp/out; done < /tests/cases\n${KILL}`],
  ['input from a pipe', `echo 3 | ${DROP} /app/run > /tmp/out\n${KILL}\n[ "$(cat /tmp/out)" = 6 ] && reward=1`],
  [
    'a folder of its own',
    `dir=$(mktemp -d)\nsort /tests/cases > "$dir/want"\n${DROP} /app/run < /dev/null > "$dir/out"\n${KILL}`,
  ],
  ['a function', `run() { ${DROP} "$@" < /dev/null; }\nrun /app/run > /tmp/out 2>&1\nrun bash -c 'kill -KILL -1'`],
])('a grader with %s is strong', async (_, lines) => {
  expect(await estimate(lines)).toMatchObject({ strength: 'strong' })
})

test('the sample grader is strong', async () => {
  const folder = 'samples/tasks/sum-behind-a-wall/tests'
  const files = Object.fromEntries(
    ['test.sh', 'cases.txt'].map((name) => [`tests/${name}`, readFileSync(`${folder}/${name}`, 'utf8')]),
  )
  expect(await estimateFiles({ ...TOML, ...files })).toMatchObject({ strength: 'strong' })
})
