import { expect, test } from 'vitest'
import { estimateFiles as estimated } from '../../../test/support/harbor/strength.ts'

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
  // Values that get their name from the command behind an assignment or a wrapper.
  ['while IFS=, read -r item amount; do total=$((total + amount)); done < /app/bill.csv', 'evaluates arithmetic'],
  ['LC_ALL=C read n < /app/x; (( n ))', 'evaluates arithmetic'],
  ['command read n < /app/x; (( n ))', 'evaluates arithmetic'],
  ['X=1 builtin read n < /app/x; (( n ))', 'evaluates arithmetic'],
  ['LC_ALL=C export n=$(cat /app/x); (( n ))', 'evaluates arithmetic'],
  ['LC_ALL=C declare n=$(cat /app/x); (( n ))', 'evaluates arithmetic'],
  ['f() { X=1 local n=$(cat /app/x); (( n )); }; f', 'evaluates arithmetic'],
  ['command export n=$(cat /app/x); (( n ))', 'evaluates arithmetic'],
  ['builtin declare n=$(cat /app/x); (( n ))', 'evaluates arithmetic'],
  ['f() { (( $1 )); }; X=1 f "$(cat /app/x)"', 'evaluates arithmetic'],
  ['r=read; $r n < /app/x; (( n ))', 'runs a command that is not written'],
  ['wait -p n; (( n ))', 'calls wait -p'],
  ['trap "read n < /app/x" DEBUG; (( n ))', 'evaluates arithmetic'],
  [`echo "\${a:-\${n:=$(cat /app/x)}}"; (( n ))`, 'evaluates arithmetic'],
  [`cat <<< "\${n:=$(cat /app/x)}"; (( n ))`, 'evaluates arithmetic'],
  ['n=$(grep -c x /app/*); (( n ))', 'evaluates arithmetic'],
  ['n=$(grep -c x ./[a-z]); (( n ))', 'evaluates arithmetic'],
  ["cd /app; f='*'; n=$(grep -c x $f); (( n ))", 'calls grep with an option of the submission'],
  ["cd /app; f='*'; for n in $f; do (( n )); done", 'evaluates arithmetic'],
  ['cd /app; n=$(grep -rc x); (( n ))', 'evaluates arithmetic'],
  ['n=$(grep -ec /app/x); (( n ))', 'evaluates arithmetic'],
  ['n=$([ "$(cat /app/x)" -eq 1 ] 2>&1); (( n ))', 'evaluates arithmetic'],
  ['m=$(cat /app/x); n=$(set); (( n ))', 'evaluates arithmetic'],
  [`${READ}a=([$n]=1)`, 'assigns to a computed element'],
  [`a=(echo "$(cat /app/x)"); n=\${a[1]}; (( n ))`, 'evaluates arithmetic'],
  [`${READ}declare -a a="$n"`, 'calls declare -a'],
  [`${READ}read 'a[$n]' < /app/x`, 'calls read with a computed name'],
  ['export "PATH=/app/bin"; cat /app/x', 'calls export with a computed name'],
  ['cd /app; PATH=bin; cat x', 'sets PATH'],
  ['cd /app; PATH="$PATH:"; cat x', 'sets PATH'],
  ['bash -s /tests/test.sh < /app/x', 'runs bash -s'],
  // Files that the submission fills and that are executed or loaded.
  ["grep -v '^#' /app/result.conf > /tests/result.sh; . /tests/test.sh", 'writes to /tests/result.sh'],
  ['cat /app/x > /tests/sol.py; python3 /tests/check.py', 'writes to /tests/sol.py'],
  ['cat /app/x > /tests/conftest.py; pytest /tests', 'writes to /tests/conftest.py'],
  ['{ cat /app/x; } >> "$(dirname "$0")/sol.py"; python3 /tests/check.py', 'writes to /tests/sol.py'],
  ['cd /tests; cat /app/x > sol.py; python3 /tests/check.py', 'writes to sol.py'],
  ['cat /app/x &> /root/.bashrc', 'writes to /root/.bashrc'],
  ['cat /app/x > "$PLACE/sol.py"', 'writes to a computed path'],
  ['cat /app/x | tee /tests/conftest.py; pytest /tests', 'calls tee on /tests/conftest.py'],
  ['cat /app/x > /tmp/x; cp /tmp/x /tests/sol.py; python3 /tests/check.py', 'calls cp on /tests/sol.py'],
  ['cat /app/x > /tmp/x; mv -t /tests /tmp/x', 'calls mv -t'],
  ['ln -s /app/x /tests/sol.py', 'runs ln'],
  ['uniq /app/x /tests/sol.py', 'calls uniq'],
  [`awk '{ print "a;b" $0 > "/tests/sol.py" }' /app/x`, 'calls awk'],
  // Text of the submission as a pattern or an option.
  ['[[ "hello" == $(cat /app/answer.txt) ]]', 'matches against a pattern of the submission'],
  [`${READ}[[ hello != $n ]]`, 'matches against a pattern of the submission'],
  [`${READ}[[ hello = "a"$n ]]`, 'matches against a pattern of the submission'],
  [`${READ}[[ hello =~ $n ]]`, 'matches against a pattern of the submission'],
  [`${READ}case hello in $n) echo 1 ;; esac`, 'matches against a pattern of the submission'],
  [`${READ}[ -z "\${x#$n}" ]`, 'matches against a pattern of the submission'],
  ['grep -qf /app/x /tests/expected', 'calls grep with a pattern of the submission'],
  ['grep -q --file=/app/x /tests/expected', 'calls grep with a pattern of the submission'],
  ['grep -q "$(cat /app/x)" /tests/expected', 'calls grep with a pattern of the submission'],
  [`${READ}grep -qe "$n" /tests/expected`, 'calls grep with a pattern of the submission'],
  [`${READ}grep -q x "$n"`, 'calls grep with an option of the submission'],
  ['cd /app; grep -q x *', 'calls grep with an option of the submission'],
  ['cd /app; cmp -s * /tests/expected', 'calls cmp with arguments that the submission can choose'],
  [`${READ}diff "$n" /tests/expected`, 'calls diff with arguments that the submission can choose'],
  ['jq -e "$(cat /app/x)" /tests/in.json', 'calls jq with a program of the submission'],
  ['jq -f /app/x /tests/in.json', 'calls jq with a program of the submission'],
  [`${READ}awk -v p="$n" '$0 ~ p' /tests/in`, 'calls awk with a pattern of the submission'],
  // Variables that programs read code from.
  ['read PATH < /app/x; cat /app/x', 'sets PATH'],
  ['read -r LD_PRELOAD < /app/x; cat /app/x', 'sets LD_PRELOAD'],
  ['IFS= read -r BASH_ENV < /app/x; cat /app/x', 'sets BASH_ENV'],
  ['for PATH in $(cat /app/x); do cat /app/x; done', 'sets PATH'],
  [`echo "\${BASH_ENV:=/app/x}"; cat /app/x`, 'sets BASH_ENV'],
])('a test script with the line %s is weak since it %s', async (line, reason) => {
  expect(await estimated(script(line))).toMatchObject({ strength: 'weak', reason: expect.stringContaining(reason) })
})

test.each([
  ...[...':_~^("#,|@kx'].map((mark) => `s${mark}a${mark}b${mark}e`),
  ...[
    's[a[b[e',
    's]a]b]ge',
    's/a/b/w /tests/x',
    's:a:b:pw /tests/x',
    '1e',
    '/a/e id',
    '$!e',
    '\\,a,{p;e}',
    '\\_a_w /tests/x',
  ],
  ...['p;e', '{e}', '1,/b/W /tests/x', 's/a/b/;e', 'p\ne'],
])('the sed script %s is weak', async (sed) => {
  expect(await estimated(script(`sed '${sed}' /app/x`))).toMatchObject({
    strength: 'weak',
    reason: expect.stringContaining('calls sed with a script that is not known to only read'),
  })
})

test('a script that another one calls gets its values', async () => {
  const called = { 'tests/value.sh': '(( $1 == 42 ))\n' }
  const weak = { strength: 'weak', reason: expect.stringContaining('evaluates arithmetic') }
  expect(await estimated({ ...script('bash /tests/value.sh "$(cat /app/x)"'), ...called })).toMatchObject(weak)
  expect(await estimated({ ...script('bash /tests/value.sh 42'), ...called })).toMatchObject({ strength: 'standard' })
  const sourced = { 'tests/values.sh': 'n=$(cat /app/x)\n' }
  expect(await estimated({ ...script('. /tests/values.sh; (( n ))'), ...sourced })).toMatchObject(weak)
})

test('a script with a long chain of values that depend on each other is weak', async () => {
  const count = 1_000
  const chain = Array.from({ length: count }, (_, at) => `v${at}=$v${at + 1}`).join('\n')
  expect(await estimated(script(`${chain}\nv${count}=$(cat /app/x)`))).toMatchObject({
    strength: 'weak',
    reason: expect.stringContaining('too many values that depend on each other'),
  })
})

test.each(['#!/bin/ksh', '#!/bin/bash -l', '#!/app/bin/sh'])(
  'a test script that begins with %s is weak',
  async (line) => {
    expect(await estimated({ 'tests/test.sh': `${line}\n[ 1 -eq 1 ]\n` })).toMatchObject({ strength: 'weak' })
  },
)

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
  `names=(a b); names+=(c); for name in "\${names[@]}"; do [ -f "/app/$name" ] || exit 1; done`,
  'while IFS=, read -r name rest; do [ "$name" = a ] && echo "$rest"; done < /app/x',
  'n=$(LC_ALL=C grep -c "^a[0-9]" /app/x); [[ $n -eq 3 ]]; m=$(timeout 5 grep -ic x /app/y); (( n + m ))',
  'work=$(mktemp -d); cat /app/x > "$work/copy"; sort /app/x | tee "$work/sorted" > /dev/null; cmp "$work/copy" "$work/sorted"',
  'OUT=/logs/verifier; mkdir -p "$OUT"; cat /app/x >> "$OUT/log.txt" 2>&1; exec 3> /tmp/x; echo "$(< /app/x)" >&2',
  'a="$(cat /app/x)"; b="^[0-9]+$"; [[ $a == "42" && $a =~ $b && "42" == "$a" ]] && case "$a" in "4"*) echo 1 ;; esac',
  'for f in /app/*.txt; do grep -q x "/app/sub/$f" && grep -Eqi "a|b" /app/*.txt; done; grep -Fxqf /tests/in /app/x',
  `sed -n '/a/,/b/{p;q}' /app/x; sed -E 's,[[:space:]]+$,,;s|^w|e|g;$!d' /app/x; sed '\\,w,!d' /app/x`,
])('a test script with the line %s only reads', async (line) => {
  expect(await estimated(script(line))).toEqual({
    strength: 'standard',
    reason: 'The tests only read what the agent left.',
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
  expect(await estimated({ ...script(`${drop} make -C /app; true`), ...grader })).toMatchObject({ strength: 'weak' })
  const judged = { 'tests/test.sh': `#!/bin/bash\n${drop} make -C /app && echo 1 > /logs/verifier/reward.txt\n` }
  expect(await estimated({ ...script(''), ...judged, ...grader })).toMatchObject({ strength: 'strong' })
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

test.each([
  ['workdir = "/tmp/app"', 'sort /tests/x > /tmp/app/expected', 'writes to /tmp/app/expected'],
  ['workdir = "/tmp"', 'sort /tests/x > /tmp/expected', 'writes to /tmp/expected'],
  ['workdir = "/tmp/app"', 'sort /tests/x > /tmp/./app//expected', 'writes to /tmp/./app//expected'],
  ['workdir = "/tmp/app"', 'for n in a b; do echo 1 > "/tmp/$n"; done', 'writes to a computed path'],
  ['workdir = "/tmp/app"', 'cp -r /tests/x /tmp', 'calls cp on /tmp'],
  ['workdir = "/tmp/app"', 'sort /tests/x | tee /tmp/app/expected', 'calls tee on /tmp/app/expected'],
  ['workdir = "/logs/app"', 'touch /logs/app/expected', 'calls touch on /logs/app/expected'],
])('a script in an environment with %s and the line %s is weak since it %s', async (setting, line, reason) => {
  const files = { 'task.toml': `[environment]\ndocker_image = "a/b"\n${setting}\n` }
  expect(await estimated({ ...script(line), ...files })).toMatchObject({
    strength: 'weak',
    reason: expect.stringContaining(reason),
  })
})

test('output beside the working directory and beside artifacts is fine, and output into an artifact is weak', async () => {
  const beside = { 'task.toml': '[environment]\ndocker_image = "a/b"\nworkdir = "/tmp/app"\n' }
  const line = 'sort /tests/x > /tmp/expected; cp /tests/x /tmp/other; mkdir -p /tmp/apper'
  expect(await estimated({ ...script(line), ...beside })).toMatchObject({ strength: 'standard' })
  const toml = (artifact: string) =>
    `artifacts = ["${artifact}"]\n[environment]\ndocker_image = "a/b"\nworkdir = "/app"\n[verifier]\nenvironment_mode = "separate"\n`
  const written = script('sort /tests/x > /tmp/out/expected')
  expect(await estimated({ ...written, 'task.toml': toml('/tmp/out') })).toMatchObject({ strength: 'weak' })
  expect(await estimated({ ...written, 'task.toml': toml('../tmp/out') })).toMatchObject({ strength: 'weak' })
  expect(await estimated({ ...written, 'task.toml': toml('/app/out') })).toMatchObject({ strength: 'strong' })
})

const CHOSEN = 'with arguments that the submission can choose'

test.each([
  // A file, a count or a set that the submission names.
  ['f=$(cat /app/which); cat "$f"', `calls cat ${CHOSEN}`],
  ['cat "$(cat /app/which)"', `calls cat ${CHOSEN}`],
  ['while read -r f want; do [ "$(cat "$f")" = "$want" ]; done < /app/list', `calls cat ${CHOSEN}`],
  ['while read -r f; do cat "/app/$f"; done < /app/list', `calls cat ${CHOSEN}`],
  ['for f in $(cat /app/list); do cat "/app/$f"; done', `calls cat ${CHOSEN}`],
  ['cd "$(cat /app/x)"; cat y', `calls cd ${CHOSEN}`],
  ['cd /app; cat *', `calls cat ${CHOSEN}`],
  ['head -n "$(cat /app/n)" /tests/x', `calls head ${CHOSEN}`],
  ['n=$(wc -l < /app/x); head -n "$n" /tests/x', `calls head ${CHOSEN}`],
  ['n=$(wc -c < /app/x); cmp -n "$n" /app/x /tests/x', `calls cmp ${CHOSEN}`],
  [`n=$(cat /app/x); tail -c "\${#n}" /tests/x`, `calls tail ${CHOSEN}`],
  ['x=$(cat /app/x); tr -d "$x" < /tests/x', `calls tr ${CHOSEN}`],
  ['cut -d, -f"$(cat /app/n)" /tests/x', `calls cut ${CHOSEN}`],
  ['f=$(cat /app/x); date -r "$f"', `calls date ${CHOSEN}`],
  ['f=$(cat /app/x); [ "$(cat < "$f")" = 1 ]', 'reads a file that the submission can name'],
  ['f=$(cat /app/x); while read -r n; do echo "$n"; done < "/app/$f"', 'reads a file that the submission can name'],
  ['f=$(cat /app/x); [ -f "/app/$f" ]', 'tests a file that the submission can name'],
  ['f=$(cat /app/x); [[ -s $f ]]', 'tests a file that the submission can name'],
  ['f=$(cat /app/x); test /app/y -nt "$f"', 'tests a file that the submission can name'],
  ['f=$(cat /app/x); grep -q y "/app/$f"', 'calls grep with an option of the submission'],
  ['f=$(cat /app/x); jq -e .a "/app/$f"', 'calls jq with a program of the submission'],
  ["jq -e 'test(.pattern)' /app/x.json", 'calls jq with a pattern of the submission'],
  [`jq -e 'include "lib" {search: "/app"}; check' /app/x.json`, 'calls jq with a program of the submission'],
  [`jq -ne --arg p "$(cat /app/x)" '"a" | test($p)'`, 'calls jq with a pattern of the submission'],
  [`f=$(cat /app/x); awk '{ print 1 }' "/app/$f"`, `calls awk ${CHOSEN}`],
  ['f=$(cat /app/x); python3 /tests/check.py "$f"', `calls python3 ${CHOSEN}`],
  ['n=$(cat /app/x); read -n "$n" y < /tests/x', `calls read ${CHOSEN}`],
  ['sha256sum -c /app/sums', 'checks a list of the submission with sha256sum'],
  ['cd /app; md5sum --check --status < sums', 'checks a list of the submission with md5sum'],
  ['cat /app/sums | sha1sum -c -', 'checks a list of the submission with sha1sum'],
  ['wc --files0-from=/app/list', 'calls wc --files0-from'],
  ['diff -r --exclude-from=/app/list /app /tests', 'calls diff --exclude-from'],
  // Formats that are computed or assign.
  ['n=$(cat /app/x); printf "got $n"', 'prints with a format of the submission'],
  ['n=$(cat /app/x); printf -- "$n"', 'prints with a format of the submission'],
  ["printf '%n' x", 'assigns with printf %n'],
  [`n=$(cat /app/x); printf '%d%-5n' 1 "$n"`, 'assigns with printf %n'],
  ['f=%n; printf "$f" x', 'assigns with printf %n'],
  ['printf -vx 1', 'assigns with printf -v'],
])('a test script with the line %s is weak because it %s', async (line, reason) => {
  expect(await estimated(script(line))).toMatchObject({ strength: 'weak', reason: expect.stringContaining(reason) })
})

test.each([
  'f=$(cat /app/x); echo "$f"; printf "%s %5d%%\\n" "$f" 3; [ "$f" = a ] && [ -n "$f" ] && basename "$f"',
  'for f in /app/*.txt; do cat "$f"; [ -s "$f" ] && grep -q x "$f" && wc -l < "$f"; done; cat /app/*.txt',
  'DIR=$(cd "$(dirname "$0")" && pwd); cat "$DIR/x"; cd /app; cat "$PWD/x"; n=$(head -n 1 /tests/x); grep -q "$n" /app/x',
  'want=$(sort /tests/x | head -n 3 | wc -l); head -n "$want" /app/x; cat <(sort /app/x)',
  'echo "abc  /app/x" | sha256sum -c -; sha256sum -c /tests/sums; sha256sum /app/x | cut -d" " -f1',
  'check() { cat "$1" && [ -f "$2" ]; }; check /app/x /app/y; for n in 1 2; do head -n "$n" /app/x; done',
  `jq -e --arg want a 'select(.name | test("^a")) | .b == $want' /app/x.json; printf "$HOME %s" x`,
  'while read -r name want; do true < /dev/null; [ "$(cat "/app/$name")" = "$want" ]; done < /tests/cases',
  `passed=0; passed=$((passed + 1)); printf "$passed of 3"; exit "$passed"`,
])('a test script with the line %s only reads', async (line) => {
  expect(await estimated(script(line))).toMatchObject({ strength: 'standard' })
})

test('an option of node in a variable is weak, because it can load code', async () => {
  const files = { ...script('o=--require=/app/x.js; node "$o" /tests/check.js'), 'tests/check.js': 'console.log(1)\n' }
  expect(await estimated(files)).toMatchObject({ strength: 'weak' })
})
