import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { writeFiles } from '../../../test/support/harbor/folders.ts'
import { SMALL_TASK } from '../../../test/support/harbor/small-task.ts'
import { openFolderSource } from '../folder-source.ts'
import { checkTask } from './check-task.ts'

async function estimated(files: Record<string, string>, without: string[] = []) {
  const folder = mkdtempSync(join(tmpdir(), 'assay-strength-'))
  try {
    await writeFiles(folder, { ...SMALL_TASK, ...files })
    for (const path of without) rmSync(join(folder, path))
    return (await checkTask(await openFolderSource(folder))).strength
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const script = (line: string): Record<string, string> => ({
  'tests/test.sh': `#!/bin/bash\n# go test ./... in a comment\n${line}\necho $? > /logs/verifier/reward.txt\n`,
  'tests/check.py': 'print(open("/app/x").read())\n',
})

test.each([
  ['cd /app && go test ./...', 'weak'],
  ['cd /app; npx jest src', 'weak'],
  ['if make -C /app; then true; fi', 'weak'],
  ['timeout 60 cargo test', 'weak'],
  ['python3 -m pytest /tests/test_it.py', 'weak'],
  ['pytest tests/', 'weak'],
  ['bash /app/run.sh', 'weak'],
  ['./configure', 'weak'],
  ['cp /tests/x_test.go /app/', 'weak'],
  ['curl -s http://localhost:8080', 'weak'],
  ['pytest /tests/test_it.py -rA', 'standard'],
  ['grep -q hello /app/hello.txt', 'standard'],
  ['cmp /app/out.txt /tests/expected.txt', 'standard'],
  ['python3 /tests/check.py', 'standard'],
])('a test script with the line %s is %s', async (line, strength) => {
  expect(await estimated(script(line))).toMatchObject({ strength })
})

const READ = 'n=$(cat /app/n.txt); '

test.each([
  [`${READ}[[ "$n" -eq 4242 ]]`, 'evaluates arithmetic'],
  [`${READ}(( n == 4242 ))`, 'evaluates arithmetic'],
  [`${READ}echo $((n + 1))`, 'evaluates arithmetic'],
  [`${READ}x=\${a[$n]}`, 'expands $'],
  [`${READ}x=\${a:$n}`, 'expands $'],
  [`${READ}x=\${!n}`, 'expands $'],
  [`${READ}x=\${n@P}`, 'expands $'],
  [`${READ}a[$n]=1`, 'runs a command that is not written'],
  [`${READ}[ -v "$n" ]`, 'tests a computed name'],
  [`${READ}[ $n = 1 ]`, 'an unquoted variable inside [ ]'],
  [`${READ}[ "$n" = 1 -a "$n" = 2 ]`, 'joins conditions'],
  [`${READ}printf "$n"`, 'prints with a format'],
  [`${READ}declare -i m="$n"`, 'calls declare -i'],
  [`${READ}read "$n" < /app/x`, 'calls read with a computed name'],
  [`${READ}eval "$n"`, 'runs eval'],
  [`${READ}$n`, 'runs a command that is not written'],
  [`${READ}trap '(( n ))' EXIT`, 'evaluates arithmetic'],
  [`${READ}bash -c '(( $1 ))' _ "$n"`, 'evaluates arithmetic'],
  [`${READ}check() { [[ $1 -eq 1 ]]; }; check "$n"`, 'evaluates arithmetic'],
  [`${READ}echo 1 > "$n"`, 'writes to a file that the submission can name'],
  ['while read -r n; do (( n )); done < /app/x', 'evaluates arithmetic'],
  ['for n in $(cat /app/x); do (( n )); done', 'evaluates arithmetic'],
  ['. /app/result.settings', 'sources /app/result.settings'],
  ['source "$PWD/settings"', 'sources'],
  ['su - dev -c "cat list"', 'runs su'],
  ['sudo cat /app/x', 'runs sudo'],
  ['bash -lc "cat /app/x"', 'runs bash -lc'],
  ['cd /app && tar cf /tmp/x.tar *', 'calls tar'],
  ['cd /app && sort *', 'calls sort'],
  ['seq 10 | sed -n -f /app/filter.sed', 'calls sed -f'],
  ["sed -n 's/.*/id/e' /app/x", 'calls sed'],
  ['awk -f /app/x.awk /tests/in', 'calls awk'],
  ["awk '{ system($0) }' /app/x", 'calls awk'],
  ['find /app -exec cat {} +', 'calls find -exec'],
  ['ls /app | xargs cat', 'runs xargs'],
  ['git -C /app status', 'runs git'],
  ['cp /app/reward.txt /logs/verifier/', 'calls cp on /app/reward.txt'],
  ['PATH=/app/bin:$PATH; cat /app/x', 'sets PATH'],
  ['PYTHONPATH=/app python3 /tests/check.py', 'sets PYTHONPATH'],
  ['cd /app && python3 -c "import json"', 'runs python3 -c'],
  ['python3 - < /tests/check.py', 'runs python3 -'],
  ['uvx pytest /tests/test_it.py', 'runs uvx'],
  ['cat <<EOF\n$(/app/run)\nEOF', 'runs /app/run'],
  ['echo "`/app/run`"', 'runs /app/run'],
  ['diff <(/app/run) /tests/x', 'runs /app/run'],
  ['case x in x) /app/run ;; esac', 'runs /app/run'],
  ['check() {\n  "$@"\n}\ncheck /app/run', 'runs /app/run'],
  ['if true; then echo "unclosed; fi', 'cannot be read as a shell script'],
])('a test script with the line %s is weak because it %s', async (line, reason) => {
  expect(await estimated(script(line))).toMatchObject({ strength: 'weak', reason: expect.stringContaining(reason) })
})

test.each([
  '[ "$(tr -d "[:space:]" < /app/answer.txt)" = 42 ] && echo yes',
  'count=0; for n in 1 2 3; do count=$((count + n)); done; [[ $count -eq 6 ]]; ((count++))',
  'if [ $? -eq 0 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt',
  '[ $(cat /app/x | wc -l) -eq 3 ]',
  'case "$(cat /app/x)" in\n  a | b) echo 1 ;;\n  *) echo 0 ;;\nesac',
  'DIR="$(cd "$(dirname "$0")" && pwd)"; python3 "$DIR/check.py"',
  "awk -F, '$2 > 3 { n++ } END { print n }' /app/x | sort -n | head -n 1",
  "sed -n '2p' /app/x; sed 's/a/b/g' /app/x",
  'find /app -name "*.txt" | wc -l; tar -tf /app/x.tar | sort',
  'timeout 5 cmp -s /app/x /tests/expected; mkdir -p /logs/verifier; x=$1; echo "$x $#"',
  'while read -r line; do echo "$line"; done < <(grep -v x /app/y) # a comment with $(run)',
  'pytest -q -p no:cacheprovider --ctrf /logs/verifier/ctrf.json /tests/check.py -rA 2>&1 | tee /logs/verifier/out.txt',
  'export PATH="/usr/local/bin:$PATH"; jq -e ".a == 1" /app/x.json',
])('a test script with the line %s only reads', async (line) => {
  expect(await estimated(script(line))).toEqual({
    strength: 'standard',
    reason: 'The tests only read what the candidate left.',
  })
})

test.each([
  ['import subprocess', 'weak'],
  ['import sys; sys.path.insert(0, "/app")', 'weak'],
  ['import sys; sys.path[:0] = ["/app"]', 'weak'],
  ['import pickle', 'weak'],
  ['import pandas; pandas.read_pickle("/app/x")', 'weak'],
  ['import tarfile', 'weak'],
  ['import re; re.compile("x")', 'standard'],
  ['import json; json.load(open("/app/x.json"))', 'standard'],
])('tests in Python with %s are %s', async (code, strength) => {
  expect(await estimated({ ...script('pytest /tests/test_it.py'), 'tests/test_it.py': `${code}\n` })).toMatchObject({
    strength,
  })
})

test('estimates a separate verifier that only reads, and a grader, as strong', async () => {
  const toml = (more: string) => ({ 'task.toml': `[environment]\ndocker_image = "a/b"\n${more}` })
  const separate = toml('[verifier]\nenvironment_mode = "separate"\n')
  expect(await estimated({ ...script('true'), ...separate })).toMatchObject({ strength: 'strong' })
  expect(await estimated({ ...script('make'), ...separate })).toMatchObject({ strength: 'weak' })
  const grader = toml('[metadata.assay]\ngrader = true\n')
  const drop = 'setpriv --reuid=65534 --regid=65534 --clear-groups -- '
  expect(await estimated({ ...script(`${drop} make -C /app`), ...grader })).toMatchObject({ strength: 'strong' })
  expect(await estimated({ ...script('make'), ...grader })).toMatchObject({ strength: 'weak' })
  const compares = script(`said=$(${drop} /app/run); [[ $said -eq 42 ]]`)
  expect(await estimated({ ...compares, ...grader })).toMatchObject({ strength: 'weak' })
})

test('tests that only an image has cannot be read, and are weak', async () => {
  const files = {
    'task.toml': '[environment]\ndocker_image = "a/b"\n[verifier.environment]\ndocker_image = "a/tests"\n',
    'tests/notes.md': 'The tests are in the image.\n',
  }
  expect(await estimated(files, ['tests/test.sh'])).toMatchObject({ strength: 'weak' })
})

test.each([
  ['ENV PATH=/app/.venv/bin:$PATH', 'PATH'],
  ['ENV PATH="$PATH:bin"', 'PATH'],
  ['ENV LD_LIBRARY_PATH=/app/lib', 'LD_LIBRARY_PATH'],
  ['ENV NODE_OPTIONS="--require /app/x.js"', 'NODE_OPTIONS'],
  ['ENV BASH_ENV=/usr/../app/x', 'BASH_ENV'],
  ['ENV SOME_TOOL_CONFIG=/app/x', 'SOME_TOOL_CONFIG'],
])('an image with %s is weak', async (line, name) => {
  const files = {
    'task.toml': '[environment]\n',
    'environment/Dockerfile': `FROM debian\nWORKDIR /app\n${line}\n`,
  }
  expect(await estimated({ ...script('cat /app/x'), ...files })).toMatchObject({
    strength: 'weak',
    reason: `The variable ${name} of the verifier's environment names a path in the submission.`,
  })
})

test('an environment whose healthcheck runs a file of the submission is weak', async () => {
  const toml =
    '[environment]\ndocker_image = "a/b"\nworkdir = "/app"\n[environment.healthcheck]\ncommand = "/app/ready.sh"\n'
  expect(await estimated({ ...script('cat /app/x'), 'task.toml': toml })).toEqual({
    strength: 'weak',
    reason: "The verifier's environment runs /app/ready.sh, which the submission can change.",
  })
})

test('an image whose variables name no code in the submission is not weak', async () => {
  const dockerfile = 'FROM debian\nWORKDIR /app\nENV DATA_DIR=/app/data PATH=/opt/x/bin:$PATH LANG=C.UTF-8\n'
  const files = { 'task.toml': '[environment]\n', 'environment/Dockerfile': dockerfile }
  expect(await estimated({ ...script('cat /app/x'), ...files })).toMatchObject({ strength: 'standard' })
})
