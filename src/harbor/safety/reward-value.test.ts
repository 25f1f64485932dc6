import { expect, test } from 'vitest'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const OUT = '/logs/verifier/reward.txt'
const JSON_OUT = '/logs/verifier/reward.json'

const estimate = (script: string, more: Record<string, string> = {}) =>
  estimateFiles({ 'tests/test.sh': `#!/bin/bash\n${script}\n`, 'tests/check.py': 'print(1)\n', ...more })

const FOREIGN = { strength: 'weak', reason: 'tests/test.sh writes a reward that the submission can choose.' }

test.each([
  `cat /app/score > ${OUT}`,
  `cat /app/score >> ${OUT}`,
  `cat /app/score >| "${OUT}"`,
  `> ${OUT} cat /app/score`,
  `cat /app/score > /logs//verifier/./reward.txt`,
  `cat < /app/score > ${OUT}`,
  `head -n 1 /app/score > ${OUT}`,
  `echo "$(cat /app/score)" > ${OUT}`,
  `echo "$(< /app/score)" > ${OUT}`,
  `echo \`tail -n 1 /app/score\` > ${OUT}`,
  `printf '%s' "$(cut -d, -f2 /app/score)" > ${OUT}`,
  `score=$(cat /app/score); echo "$score" > ${OUT}`,
  `a=$(cat /app/score); b="$a"; c=\${b:-0}; echo "$c" > ${OUT}`,
  `export score=$(cat /app/score); printf '{"reward": %s}' "$score" > ${JSON_OUT}`,
  `read -r score < /app/score; echo "$score" > ${OUT}`,
  `while read -r line; do score=$line; done < /app/score; echo $score > ${OUT}`,
  `for score in $(cat /app/score); do echo $score; done > ${OUT}`,
  `score=$(cat /app/score); echo "\${score%%.*}" > ${OUT}`,
  `cat /app/score > /tmp/score; cat /tmp/score > ${OUT}`,
  `cat /app/score > /tmp/score; cp /tmp/score ${OUT}`,
  `cat /app/score > /tmp/reward.txt; mv /tmp/reward.txt /logs/verifier/`,
  `cat /app/score > /tmp/reward.txt; cp -r /tmp/. /logs/verifier`,
  `cat /app/score | tee ${OUT}`,
  `cat /app/score | tee -a ${OUT} > /dev/null`,
  `cat /app/score | tr -d ' ' > ${OUT}`,
  `cat /app/score |\n  cat > ${OUT}`,
  `{ cat /app/score; } > ${OUT}`,
  `(cat /app/score) > ${OUT}`,
  `{ cat /app/score; } | tee ${OUT}`,
  `if true; then cat /app/score; else echo 0; fi > ${OUT}`,
  `if true; then cat /app/score; else echo 0; fi | tee ${OUT}`,
  `if true; then > ${OUT} cat /app/score; fi`,
  `! > ${OUT} cat /app/score`,
  `case x in x) cat /app/score ;; esac > ${OUT}`,
  `{ cat; } < /app/score > ${OUT}`,
  `cat /app/score | { true; cat; } > ${OUT}`,
  `exec > ${OUT}; cat /app/score`,
  `exec 3> ${OUT}; cat /app/score >&3`,
  `{ cat /app/score >&3; } 3> ${OUT}`,
  `show() { cat /app/score; }; show > ${OUT}`,
  `show() { other; }; other() { cat /app/score; }; echo "$(show)" > ${OUT}`,
  `show() { cat /app/score; } > ${OUT}; show`,
  `show() { echo "$1" > ${OUT}; }; show "$(cat /app/score)"`,
  `bash -c 'cat /app/score' > ${OUT}`,
  `bash -c 'echo "$1" > ${OUT}' _ "$(cat /app/score)"`,
  `trap 'cat /app/score > ${OUT}' EXIT`,
  `cat << END > ${JSON_OUT}\n{"reward": $(cat /app/score)}\nEND`,
  `cat <<< "$(cat /app/score)" > ${OUT}`,
  `jq .score /app/x.json > ${OUT}`,
  `jq -c '{reward: .score}' /app/x.json > ${JSON_OUT}`,
  `jq -n --argjson s "$(cat /app/score)" '{reward: $s}' > ${JSON_OUT}`,
  `jq -n 'input' /app/x.json > ${JSON_OUT}`,
  `awk '{ print $1 }' /app/score > ${OUT}`,
  `awk -v s="$(cat /app/score)" 'BEGIN { print s / 2 }' > ${OUT}`,
  `awk -v s="$(cat /app/score)" 'BEGIN { print s ? s : 0 }' > ${OUT}`,
  `awk '{ n = 1 } $1 > 0\nEND { print 1 }' /app/score > ${OUT}`,
  `awk '{ print 1, $1 ? 1 : 0 }' /app/score > ${OUT}`,
  `sed -n 1p /app/score > ${OUT}`,
  `grep -o '[0-9]*' /app/score > ${OUT}`,
  `D=/logs/verifier; cat /app/score > "$D/reward.txt"`,
  `for n in reward.txt; do cat /app/score > "/logs/verifier/$n"; done`,
  // Numbers that the submission chooses.
  `grep -c ok /app/results > ${OUT}`,
  `n=$(grep -c ok /app/results); echo $n > ${OUT}`,
  `n=$(wc -l < /app/results); echo $((n / 2)) > ${OUT}`,
  `wc -l < /app/results > ${OUT}`,
  `n=$(cat /app/score); echo "\${#n}" > ${OUT}`,
  `n=0; while read -r line; do [ "$line" = ok ] && n=$((n + 1)); done < /app/results; echo $n > ${OUT}`,
  `n=0; grep ok /app/results | while read -r line; do ((n++)); echo $n; done > ${OUT}`,
  `n=; for file in /app/*; do n+=1; done; echo "$n" > ${OUT}`,
  `n=0; for i in $(seq 1 "$(wc -l < /app/results)"); do n=$((n + 1)); done; echo $n > ${OUT}`,
  `stat -c %s /app/score > ${OUT}`,
  `date -r /app/score +%d > ${OUT}`,
  `f() { return "$(cat /app/score)"; }; f; echo $? > ${OUT}`,
  `(exit "$(cat /app/score)"); n=$?; echo $((n)) > ${OUT}`,
])('a test script with %s is weak', async (line) => {
  expect(await estimate(line)).toEqual(FOREIGN)
})

test('a grader that prints the reward of the submission is weak', async () => {
  const grader = { 'task.toml': '[environment]\ndocker_image = "a/b"\n[metadata.assay]\ngrader = true\n' }
  const run = 'setpriv --reuid=65534 --regid=65534 --clear-groups -- /app/run'
  expect(await estimate(`${run} > ${OUT}`, grader)).toEqual(FOREIGN)
  expect(await estimate(`said=$(${run}); echo "$said" > ${OUT}`, grader)).toEqual(FOREIGN)
  const compared = `said=$(${run}); if [ "$said" = 42 ]; then echo 1; else echo 0; fi > ${OUT}`
  expect(await estimate(compared, grader)).toMatchObject({ strength: 'strong' })
})

test('a script whose output another one uses as the reward is weak', async () => {
  const called = { 'tests/score.sh': 'cat /app/score\n' }
  expect(await estimate(`bash /tests/score.sh > ${OUT}`, called)).toEqual(FOREIGN)
  const sourced = { 'tests/score.sh': 'score=$(cat /app/score)\n' }
  expect(await estimate(`. /tests/score.sh; echo "$score" > ${OUT}`, sourced)).toEqual(FOREIGN)
})

test.each([
  `[ "$(cat /app/x)" = 42 ]; echo $? > ${OUT}`,
  `cat /app/x; if cmp -s /app/x /tests/check.py; then echo 1; else echo 0; fi > ${OUT}`,
  `if cat /app/x | grep -q y; then echo 1 > ${OUT}; else echo 0 > ${OUT}; fi`,
  `score=0; for n in 1 2 3; do [ -f "/app/$n" ] && score=$((score + 1)); done; echo "$((score / 3))" > ${OUT}`,
  `p=0; [ -f /app/x ] && p=1; reward=$(awk -v p="$p" 'BEGIN { print p / 4 }'); echo "$reward" > ${OUT}`,
  `r=0; [ "$(cat /app/x)" = 1 ] && r=1; printf '{"reward": %s}\\n' "$r" > ${JSON_OUT}`,
  `r=1; cat << END > ${JSON_OUT}\n{"reward": $r}\nEND`,
  `a=$(cat /app/x); r=$(awk -v a="$a" 'BEGIN { d = a - 4; print (d < 1 && d > -1) ? 1 : 0 }'); echo "$r" > ${OUT}`,
  `awk '{ n += $1 } END { if (n == 3) print 1; else print 0 }' /app/x > ${OUT}`,
  `said=$(mktemp -d); i=0; i=$((i + 1)); cat /app/x > "$said/$i"; [ -s "$said/1" ]; echo $? > ${OUT}`,
  `n=0; while read -r line; do [ -f "/app/$line" ] && n=$((n + 1)); done < /tests/cases; echo $n > ${OUT}`,
  `while read -r line; do echo "$line"; done < /app/x; [ -f /app/x ] && r=1; echo "$r" > ${OUT}`,
  `r=1; jq -n --argjson r "$r" '{reward: $r}' > ${JSON_OUT}`,
  `if sort -c /app/x && [ "$(cat /app/x)" = 1 ]; then echo 1; else echo 0; fi > ${OUT}`,
  `echo 1 | tee ${OUT}; expr 1 + 1 > ${OUT}`,
  `python3 /tests/check.py > ${OUT}; score=$(python3 /tests/check.py); echo "$score" | tee ${OUT}`,
  `pytest /tests/check.py > /logs/verifier/out.txt 2>&1; cp /logs/verifier/out.txt /logs/artifacts/`,
  `grade() { if grep -q a /app/x; then echo 1; else echo 0; fi; }; grade > ${OUT}`,
  `cat /app/x > /logs/verifier/answer.txt; cat /app/x | tee /tmp/copy; echo 1 > ${OUT}`,
  `{ if diff /app/x /tests/check.py > /tmp/diff; then echo 1; else echo 0; fi; } > ${OUT}`,
])('a test script with %s decides the reward itself', async (line) => {
  expect(await estimate(line)).toMatchObject({ strength: 'standard' })
})
