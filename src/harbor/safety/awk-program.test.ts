import { expect, test } from 'vitest'
import { cpuMs } from '../../../test/support/cpu-time.ts'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const estimate = (line: string) =>
  estimateFiles({ 'tests/test.sh': `#!/bin/bash\n${line}\necho $? > /logs/verifier/reward.txt\n` })

test.each([
  "awk '$1 !~ $2' /app/x",
  "awk '$1 ~ $2 { n++ } END { exit n }' /app/x",
  'awk \'{ exit !("a" ~ $0) }\' /app/x',
  'awk \'{ p = $1 } "a" ~ p\' /app/x',
  'awk \'"a" ~ "^" $1\' /app/x',
  'awk \'"a" ~ ("^" $1)\' /app/x',
  "awk 'NR == FNR { a[n++] = $0; next } { for (i in a) if (match($0, a[i])) exit 0 }' /app/x /tests/x",
  'awk \'{ gsub($1, "", want) }\' /app/x',
  'awk \'{ sub(p, "") }\' /app/x',
  "awk '{ split(want, parts, $1) }' /app/x",
  'awk \'{ x = gensub($1, "", "g", want) }\' /app/x',
  'awk \'{ n = match(want, $1 "x") }\' /app/x',
  "awk '{ match (want, $1) }' /app/x",
  "awk '{ FS = $1 }' /app/x",
  "awk '{ RS = $1 } { print }' /app/x",
  "awk -v p=a '{ p = $1 } want ~ p' /app/x",
  "awk 'want ~ p' p=a /app/x",
  'awk \'{ x = 4 / 2; y = "a" ~ $1; z = 4 / 2 }\' /app/x',
  "awk '{ ARGV[1] = $1 }' /app/x",
])('%s is weak', async (line) => {
  expect(await estimate(line)).toMatchObject({
    strength: 'weak',
    reason: 'tests/test.sh calls awk with a pattern of the submission.',
  })
})

test.each([
  'awk \'$1 ~ /^a~b/ && $2 !~ "x" { n++ } END { exit n != 3 }\' /app/x',
  'awk \'{ gsub(/[, ]/, ""); sub("a", $2); split($0, parts, ","); split($1, more); print length(parts[1]) }\' /app/x',
  "awk -v p='^a' -F, '$1 ~ p { n = n / 2 / 3 }' /app/x",
  'awk \'BEGIN { FS = ","; OFS = $1 } match($0, /a(b)/) { print substr($0, RSTART) }\' /app/x',
  'awk \'/a\\/b/ { next } # $1 ~ $2\n{ print "$1 ~ $2", 4 / 2 }\' /app/x',
  'awk \'{ print ((NR > (1)) ? "a > b" : "c"), /"}>/, n[NR > 1] }\' /app/x',
  'awk \'{ print "}"; if (NR > 1) exit 1 } END { print\n if (NR > 1) exit 1 }\' /app/x',
  'awk \'{ print "a" } # print > "b"\' /app/x',
  "awk -F: '{ if ($1 ~ /a/) print; else if ($2 == $3) exit 1 }' /app/x",
])('%s only reads', async (line) => {
  expect(await estimate(line)).toMatchObject({ strength: 'standard' })
})

test.each([
  'awk \'{ print "a" > "/app/y" }\' /app/x',
  'awk \'{ print "a" \\\n > "/app/y" }\' /app/x',
  'awk \'{ print "a",\n "b" > "/app/y" }\' /app/x',
  'awk \'{ print /}/ > "/app/y" }\' /app/x',
  'awk \'{ print /a{2};/, "b" >> "/app/y" }\' /app/x',
  'awk \'{ print /"}/ > "/app/y" }\' /app/x',
  'awk \'{ print $/"}/ > "/app/y" }\' /app/x',
  'awk \'{ print /[\\]/"}]/ > "/app/y" }\' /app/x',
  'awk \'{ print /[[:alpha:]/"}]/ > "/app/y" }\' /app/x',
  'awk \'/a\\\n"}/ { print > "/app/y" }\' /app/x',
  'awk \'{ printf("%s }", (a > b)) > "/app/y" }\' /app/x',
  'awk \'{ print "}" # }\n print "a" > "/app/y" }\' /app/x',
])('%s writes a file', async (line) => {
  expect(await estimate(line)).toMatchObject({
    strength: 'weak',
    reason: 'tests/test.sh calls awk with a program that is not known to only read.',
  })
})

test('reads bracket expressions in linear time', async () => {
  expect(await cpuMs(() => estimate(`awk '/${'[]x]'.repeat(1000)} { print }' /app/x`))).toBeLessThan(1000)
})
