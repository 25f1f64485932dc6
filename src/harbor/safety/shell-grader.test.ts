import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const TOML = { 'task.toml': '[environment]\ndocker_image = "a/b"\nworkdir = "/app"\n[metadata.assay]\ngrader = true\n' }
const DROP = 'setpriv --reuid=1000 --regid=1000 --clear-groups --'
const KILL = `${DROP} bash -c 'kill -9 -1' < /dev/null`
const END = '[ "$reward" = 1 ] && echo 1 > /logs/verifier/reward.txt'

const COMPARE = `out=$(mktemp)\n${DROP} /app/run < /dev/null > "$out"\n${KILL}\n[ "$(cat "$out")" = "$want" ] && reward=1`

const estimate = (lines: string) =>
  estimateFiles({ ...TOML, 'tests/test.sh': `#!/bin/bash\nreward=0\n${lines}\n${END}\n`, 'tests/cases': '2 1\n' })

test.each([
  [
    'a loop over the cases whose input the program inherits',
    `while read -r want n; do got=$(${DROP} /app/run "$n"); [ "$got" = "$want" ] && reward=1; done < /tests/cases\n${KILL}`,
    'runs a program of the submission with the input that it reads itself',
  ],
  [
    'the same with cases from a pipe',
    `cat /tests/cases | while read -r want n; do ${DROP} /app/run "$n" > /tmp/out; done\n${KILL}`,
    'runs a program of the submission with the input that it reads itself',
  ],
  [
    'the same in a function',
    `run() { ${DROP} /app/run "$1"; }\nwhile read -r want n; do run "$n" > /tmp/out; done <<< "1 2"\n${KILL}`,
    'runs a program of the submission with the input that it reads itself',
  ],
  [
    'a descriptor that stays open',
    `exec 3< /tests/cases\n${DROP} /app/run < /dev/null > /tmp/out\n${KILL}`,
    'opens a file that programs of the submission inherit',
  ],
  [
    'a descriptor of a loop',
    `while read -r -u 4 want; do ${DROP} /app/run < /dev/null; done 4< /tests/cases\n${KILL}`,
    'opens a file that programs of the submission inherit',
  ],
  [
    'expected values that everybody can read',
    `sort /tests/cases > /tmp/want\n${DROP} /app/run < /dev/null > /tmp/out\n${KILL}\ncmp -s /tmp/out /tmp/want && reward=1`,
    'writes to /tmp/want, which programs of the submission can read',
  ],
  [
    'a copy of the expected values',
    `cp /tests/cases /tmp/want\n${DROP} /app/run < /dev/null > /tmp/out\n${KILL}`,
    'writes to /tmp/want, which programs of the submission can read',
  ],
  [
    'a process that is left behind, which sees the arguments of other programs',
    `${DROP} /app/run < /dev/null > /tmp/out\ngrep -qx 42 /tmp/out && reward=1`,
    'does not end the processes of the submission',
  ],
  [
    'a program in a script of its own',
    `bash -c '${DROP} /app/run > /tmp/out'\n${KILL}`,
    'runs programs of the submission in a nested script',
  ],
  [
    'the exit status of the program as the reward',
    `${DROP} /app/run < /dev/null\necho $? > /logs/verifier/reward.txt\n${KILL}`,
    'writes a reward that the submission can choose',
  ],
  ['an exported value', `export want="$(cat /tests/cases)"\n${COMPARE}`, 'exports want'],
  ['a value that is exported later', `want="$(cat /tests/cases)"\nexport want\n${COMPARE}`, 'exports want'],
  ['a declared value', `declare -x want="$(cat /tests/cases)"\n${COMPARE}`, 'exports want'],
  ['all values exported', `set -a\nwant="$(cat /tests/cases)"\n${COMPARE}`, 'exports all its variables'],
  ['a value of the environment', COMPARE, 'compares with want of the environment'],
  ['a copy of such a value', `want="$EXPECTED"\n${COMPARE}`, 'compares with EXPECTED of the environment'],
  [
    'a value as an argument',
    `want="$(cat /tests/cases)"\n${DROP} /app/run "$want" < /dev/null\n${COMPARE}`,
    'passes want',
  ],
  ['a value before the program', `want=42\nWANT="$want" ${DROP} /app/run < /dev/null\n${COMPARE}`, 'passes want'],
  [
    'a value through a function',
    `want=42\nrun() { ${DROP} "$@" < /dev/null; }\nrun /app/run "$want"\n${COMPARE}`,
    'passes want',
  ],
  [
    'the expected file as input',
    `${DROP} /app/run < /tests/cases > /tmp/out\n${KILL}\ncmp -s /tmp/out /tests/cases`,
    'gives /tests/cases',
  ],
  [
    'a file that the program writes',
    `${DROP} /app/run < /dev/null\n${KILL}\ncmp -s /app/out /tests/cases && reward=1`,
    'reads /app/out',
  ],
  [
    'such a file in /tmp',
    `${DROP} /app/run < /dev/null\n${KILL}\n[ "$(cat /tmp/out)" = 42 ] && reward=1`,
    'reads /tmp/out',
  ],
  ['such a file as input', `${DROP} /app/run < /dev/null\n${KILL}\nread -r got < out.txt`, 'reads out.txt'],
  [
    'capabilities for the program',
    `${DROP.replace(' --', ' --ambient-caps=+all --')} /app/run < /dev/null`,
    'runs setpriv',
  ],
  [
    'a program that shows its argument',
    `${DROP} /app/run < /dev/null > /tmp/out\n/bin/echo 42 | cmp -s - /tmp/out`,
    'does not end',
  ],
  [
    'expected values in the folder of logs',
    `cp /tests/cases /logs/want\n${DROP} /app/run < /dev/null > /tmp/out\n${KILL}`,
    'writes to /logs/want, which programs of the submission can read',
  ],
  [
    'a folder of its own that everybody may enter',
    `dir=$(mktemp -d)\nchmod 755 "$dir"\nsort /tests/cases > "$dir/want"\n${DROP} /app/run < /dev/null > "$dir/out"\n${KILL}`,
    'calls chmod',
  ],
  ['such a mode with an option', `chmod --recursive 777 /tests\n${COMPARE}`, 'calls chmod'],
  ['a reward that everybody may write', `chmod -R a+rwX /logs/verifier\n${COMPARE}`, 'calls chmod'],
  [
    'inputs whose names say what is expected',
    `for file in /tests/bad/*; do ${DROP} /app/run < "$file" > /dev/null 2>&1 && exit 1; done\n${KILL}`,
    'tells a program of the submission the name of its input',
  ],
  [
    'such inputs, of which only the errors are kept',
    `dir=$(mktemp -d)\nfor file in /tests/bad/*; do ${DROP} /app/run < "$file" > /dev/null 2> "$dir/errors" && exit 1; done\n${KILL}`,
    'tells a program of the submission the name of its input',
  ],
  [
    'such inputs in a function',
    `run() { ${DROP} "$@"; }\nif run /app/run < /tests/good.json && ! run /app/run < /tests/bad.json; then reward=1; fi\n${KILL}`,
    'tells a program of the submission the name of its input',
  ],
  [
    'expected output of a program that the submission can end',
    `dir=$(mktemp -d)\n${DROP} /app/run < /dev/null > "$dir/got"\n${DROP} factor 12 < /dev/null > "$dir/want"\n${KILL}\ncmp -s "$dir/got" "$dir/want" && reward=1`,
    'compares outputs of programs of the submission with each other',
  ],
  [
    'such outputs in variables',
    `got=$(${DROP} /app/run < /dev/null)\nwant=$(${DROP} factor 12 < /dev/null)\n[ "$got" = "$want" ] && reward=1`,
    'compares outputs of programs of the submission with each other',
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
  ['a value that only the script knows', `want="$(cat /tests/cases)"\n${COMPARE}`],
  [
    'a file that a program of the submission reads for it',
    `${DROP} cat /app/out < /dev/null > /tmp/out\n${KILL}\ncmp -s /tmp/out /tests/cases && reward=1`,
  ],
  [
    'its inputs through a pipe',
    `for n in 1 2; do cat "/tests/bad/$n" | ${DROP} /app/run > /dev/null 2>&1 && exit 1; done\n${KILL}`,
  ],
  [
    'an input for each named output',
    `run() { ${DROP} /app/run < "$1"; }\nout=$(mktemp)\nfor n in 1 2; do run "/tests/$n.in" > "$out"; ${KILL}; cmp -s "$out" "/tests/$n.out" || exit 1; done`,
  ],
  [
    'an output that is changed before it is compared',
    `got=$(${DROP} /app/run < /dev/null)\ngot=$(echo "$got" | tr -d ' ')\n${KILL}\n[ "$got" = 42 ] && reward=1`,
  ],
  [
    'two temporary files, one with a copy of what it expects',
    `out=$(mktemp)\nwant=$(mktemp)\ncp /tests/cases "$want"\n${DROP} /app/run < /dev/null > "$out"\n${KILL}\ncmp -s "$out" "$want" && reward=1`,
  ],
  [
    'a loop whose output is compared',
    `dir=$(mktemp -d)\nfor n in 1 2; do { ${DROP} /app/run < "/tests/$n.in"; } 2> /dev/null; done > "$dir/out"\n${KILL}\ncmp -s "$dir/out" /tests/cases && reward=1`,
  ],
  [
    'a loop whose output goes through a pipe',
    `for n in 1 2; do ${DROP} /app/run < "/tests/$n.in"; done | cmp -s - /tests/cases && reward=1`,
  ],
  [
    'one fixed input, after which a file is compared',
    `dir=$(mktemp -d)\n${DROP} /app/import < /tests/seed.sql\n${DROP} cat /app/out < /dev/null > "$dir/out"\n${KILL}\ncmp -s "$dir/out" /tests/cases && reward=1`,
  ],
  [
    'modes of files in its own folders',
    `dir=$(mktemp -d)\nchmod --verbose +x /tests/helper.sh\ncp /tests/cases "$dir/in.txt"\nchmod 644 "$dir/in.txt"\n${DROP} /app/run < /dev/null > "$dir/out"\n${KILL}`,
  ],
  [
    'a report in the folder of the reward',
    `dir=$(mktemp -d)\n${DROP} /app/run < /dev/null > "$dir/out"\n${KILL}\ncp "$dir/out" /logs/verifier`,
  ],
  ['a captured output', `got=$(${DROP} /app/run < /tests/in)\n${KILL}\n[ "$got" = 42 ] && reward=1`],
  [
    'an output for each named input',
    `dir=$(mktemp -d)\nfor n in 1 2; do ${DROP} /app/run < "/tests/$n.in" > "$dir/$n"; ${KILL}; cmp -s "$dir/$n" "/tests/$n.out" || exit 1; done`,
  ],
  ['a private mode', `dir=$(mktemp -d)\nchmod 700 "$dir"\nmkdir -p /tmp/work\nchmod 777 /tmp/work\nwant=1\n${COMPARE}`],
  ['harmless settings', `export LC_ALL=C MODE=fast\nwant=42\n${COMPARE}`],
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

test.each([
  ['starts programs', 'import subprocess\nsubprocess.run(["/srv/run"], user=1000)\n', 'starts programs'],
  ['reads a file of the submission', 'assert open("/app/out").read() == "42"\n', 'can replace by links'],
  ['reads a file in /tmp', 'assert open("/tmp/out").read() == "42"\n', 'can replace by links'],
  ['reads a file of the current directory', 'assert open("out").read() == "42"\n', 'can replace by links'],
])('a grader in Python that %s is weak', async (_, code, reason) => {
  const run = `want=1\n${DROP} /app/run < /dev/null > /tmp/out\n${KILL}\npython3 /tests/check.py && reward=1`
  const files = { ...TOML, 'tests/test.sh': `#!/bin/bash\nreward=0\n${run}\n${END}\n`, 'tests/check.py': code }
  expect(await estimateFiles(files)).toMatchObject({ strength: 'weak', reason: expect.stringContaining(reason) })
})
