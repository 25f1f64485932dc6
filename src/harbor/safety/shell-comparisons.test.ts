import { expect, test } from 'vitest'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const estimate = (condition: string) =>
  estimateFiles({
    'environment/Dockerfile': 'FROM debian:bookworm-slim\nWORKDIR /app\n',
    'tests/test.sh': `#!/bin/bash\n${condition}\necho $? > /logs/verifier/reward.txt\n`,
    'tests/check.py': 'assert open("/app/a").read() == "x"\n',
  })

test.each([
  'cmp -s /app/a /app/b',
  'diff /app/a /app/b > /dev/null',
  'comm /app/a /app/b > /dev/null',
  'a=/app/a; cmp "$a" /app/b',
  'cd /app; cmp a.txt b.txt',
  'sort /app/a | cmp -s - /app/b',
  'cmp -s - /app/b < /app/a',
  'diff <(sort /app/a) <(sort /app/b)',
  '[ "$(cat /app/a)" = "$(cat /app/b)" ]',
  '[[ "$(sort /app/a)" != "$(sort /app/b)" ]]',
  'a=$(cat /app/a); b=$(cat /app/b); [ "$a" = "$b" ]',
  '[ "$(sha256sum < /app/a)" = "$(sha256sum < /app/b)" ]',
  'check() { cmp /app/a /app/b; }; check',
  'same() { cmp -s "$1" "$2"; }; same /app/a /app/b',
  'same() { [ "$(cat "$1")" = "$(cat "$2")" ]; }; same /app/a /app/b',
  'equals() { [ "$1" = "$2" ]; }; equals "$(cat /app/a)" "$(cat /app/b)"',
  "awk 'NR==FNR { a[$1]; next } !($1 in a) { exit 1 }' /app/a /app/b",
  'jq -se ".[0] == .[1]" /app/a.json /app/b.json > /dev/null',
  'jq -e --slurpfile a /app/a.json ".n == 1" /app/b.json > /dev/null',
])('a script that compares two submitted files is weak: %s', async (condition) => {
  const reason = 'tests/test.sh compares files of the submission with each other.'
  expect(await estimate(condition)).toEqual({ strength: 'weak', reason })
})

test.each([
  'cmp -s /app/a /tests/b',
  'cmp /app/a /data/b',
  'cd /tests; cmp a.txt /app/b',
  'sort /app/a | cmp -s - /tests/b',
  'printf x | cmp -s - /app/a',
  'diff <(sort /app/a) /tests/b',
  '[ "$(cat /app/a)" = "$(cat /tests/b)" ]',
  '[ "$(cat /app/a)" = 42 ]',
  'equals() { [ "$1" = "$2" ]; }; equals "$(cat /app/a)" 3',
  'same() { cmp -s "$1" "$2"; }; same /app/a /tests/a; same /app/b /tests/b',
  "awk 'NR==FNR { a[$1]; next } !($1 in a) { exit 1 }' /tests/a /app/b",
  'jq -e ".n == 1" /app/a.json /app/b.json > /dev/null',
])('a script that compares a submitted file with something else is standard: %s', async (condition) => {
  expect(await estimate(condition)).toMatchObject({ strength: 'standard' })
})

test.each([
  '[ "$(wc -l < /app/a)" = "$(wc -l < /app/b)" ]',
  '[ "$(wc -l < /app/a)" -eq "$(wc -l < /app/b)" ]',
  'a=$(grep -c x /app/a); b=$(grep -c y /app/b); [ "$a" -eq "$b" ]',
  'a=$(wc -l < /app/a); b=$(wc -l < /app/b); (( a == b ))',
  '[ "$(cat /app/a | wc -l)" = "$(sort -u /app/a | wc -l)" ]',
  `a=$(cat /app/a); b=$(cat /app/b); [ "\${#a}" = "\${#b}" ]`,
  '[ "$(head -n 1 /app/a)" = "$(tail -n 1 /app/a)" ]',
  '[ "$(jq .total /app/x.json)" = "$(jq ".items | add" /app/x.json)" ]',
  'jq -e ".total == (.items | add)" /app/x.json > /dev/null',
  "awk '$3 != $1 * $2 { exit 1 }' /app/x.txt",
  '[ "$(wc -l < /app/a)" = 3 ] && [ "$(sort -u /app/a | wc -l)" = "$(wc -l < /app/a)" ]',
  'count() { wc -l < "$1"; }; [ "$(count /app/a)" = "$(count /app/b)" ]',
])('a script that compares the submission only with itself is weak: %s', async (condition) => {
  const reason = 'tests/test.sh compares the submission only with itself.'
  expect(await estimate(condition)).toEqual({ strength: 'weak', reason })
})

test.each([
  '[ "$(wc -l < /app/a)" = "$(wc -l < /app/b)" ] && cmp -s /app/a /tests/a',
  '[ "$(wc -l < /app/a)" = "$(wc -l < /tests/a)" ]',
  '[ "$(jq .total /app/x.json)" = "$(jq ".items | add" /app/x.json)" ] && [ "$(jq .total /app/x.json)" = 42 ]',
  'jq -e ".total == (.items | add) and .total == 42" /app/x.json > /dev/null',
  '[ "$(head -n 1 /app/a)" = "$(tail -n 1 /app/a)" ] && grep -qx total=42 /app/a',
  "awk '$3 != $1 * $2 { exit 1 }' /app/x.txt && [ \"$(head -n 1 /app/x.txt)\" = '2 3 6' ]",
  '[ "$(sort -u /app/a | wc -l)" = "$(wc -l < /app/a)" ] && python3 /tests/check.py',
])('a script that also compares the submission with something else is standard: %s', async (condition) => {
  expect(await estimate(condition)).toMatchObject({ strength: 'standard' })
})

test.each([
  '[ -f /app/a ] && [ -z "$(diff /app/a /tests/a)" ]',
  'd=$(diff -u /tests/a /app/a); [ -n "$d" ] && exit 1',
  'd=$(diff /tests/a /app/a); [[ $d == "" ]]',
  '[ "$(diff /app/a /tests/a | wc -l)" -eq 0 ]',
  '[ "$(comm -3 /app/a /tests/a | wc -l)" = 0 ]',
  '[[ -z $(comm -13 /app/a /tests/a) ]]',
  'if diff /app/a /tests/a | grep -q "^[<>]"; then exit 1; fi',
  'same() { [ -z "$(diff "$1" "$2")" ]; }; same /app/a /tests/a',
  'if [ "$(cmp /app/a /tests/a 2>&1)" ]; then exit 1; fi',
  'diff /app/a /tests/a > /tmp/out; if [ -s /tmp/out ]; then exit 1; fi',
  'out=/tmp/out; comm -3 /app/a /tests/a > "$out"; [[ ! -s $out ]]',
  'diff /app/a /tests/a > /tmp/out; [ "$(wc -l < /tmp/out)" -eq 0 ]',
  'diff /app/a /tests/a > /tmp/out; [ -z "$(cat /tmp/out)" ]',
])('a script that takes a comparison without output for equality is weak: %s', async (condition) => {
  const reason = 'tests/test.sh takes missing output of a comparison, which may have failed, for equality.'
  expect(await estimate(condition)).toEqual({ strength: 'weak', reason })
})

test.each([
  'diff /app/a /tests/a | head -n 20; cmp -s /app/a /tests/a',
  'if ! d=$(diff /app/a /tests/a); then echo "$d"; exit 1; fi',
  'd=$(diff /app/a /tests/a); [ $? -eq 0 ]',
  'diff /app/a /tests/a > /tmp/out || { cat /tmp/out; exit 1; }; [ -s /app/a ]',
  '[ "$(comm -12 /app/a /tests/a | wc -l)" = 5 ]',
])('a script that uses the exit status of a comparison, or a count of its own, is standard: %s', async (condition) => {
  expect(await estimate(condition)).toMatchObject({ strength: 'standard' })
})

test.each([
  'diff -q /app/a /tests/a; if [ $? -eq 1 ]; then exit 1; fi',
  'cmp -s /app/a /tests/a; [ $? -ne 1 ]',
  'diff /app/a /tests/a > /dev/null; rc=$?; if [ "$rc" = 1 ]; then exit 1; fi',
  'diff /app/a /tests/a || rc=$?; [[ $rc != 1 ]]',
  'sort /app/a | diff - /tests/a; (( $? == 1 )) && exit 1',
  'cmp -s /app/a /tests/a; [ $? -lt 2 ]',
  'cmp -s /app/a /tests/a; case $? in 1) exit 1 ;; *) true ;; esac',
  'grep -qx 42 /app/a; [ $? -ne 1 ]',
  'same() { diff "$1" "$2"; }; same /app/a /tests/a; [ $? -ne 1 ]',
])('a script that takes a comparison that failed for equality is weak: %s', async (condition) => {
  const reason = 'tests/test.sh takes an exit status of a comparison that may have failed for equality.'
  expect(await estimate(condition)).toEqual({ strength: 'weak', reason })
})

test.each([
  'diff /app/a /tests/a; [ $? -eq 0 ]',
  'cmp -s /app/a /tests/a; rc=$?; if [ $rc -ne 0 ]; then exit 1; fi',
  'cmp -s /app/a /tests/a; [ $? -ge 1 ] && exit 1',
  'cmp -s /app/a /tests/a; rc=$?; if [ $rc -eq 1 ]; then exit 1; elif [ $rc -ne 0 ]; then exit 1; fi',
  'cmp -s /app/a /tests/a; case $? in 0) true ;; 1) exit 1 ;; *) exit 1 ;; esac',
])('a script that accepts only the exit status 0 is standard: %s', async (condition) => {
  expect(await estimate(condition)).toMatchObject({ strength: 'standard' })
})
