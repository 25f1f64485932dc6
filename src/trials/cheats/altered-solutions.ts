import { type Cheat, DOES_NOT_APPLY, SHELL } from './cheat.ts'
import { alteredAnswers } from './undone-solution.ts'

// Cheats that run the reference solution. Two keep a part of its answers. The last one shows whether tests notice a changed
// input.

/**
 * Program of awk that keeps the middle entry of a list in JSON, of all lists in an object of lists, or, if `keys` is set,
 * of an object. Other JSON stays as it is: beside a list there may be a value that the tests need.
 */
const KEEP_ONE = String.raw`
function skip() { while (substr(t, p, 1) ~ /[ \t]/) p++ }
function scalar(pattern, length_, start) {
  start = p
  p += match(substr(t, p, length_), pattern) == 1 ? RLENGTH : 1
  return substr(t, start, p - start)
}
function keep(items, n, close_, one, i, out) {
  if (one && n > 2) out = items[int((n + 1) / 2)]
  else for (i = 1; i <= n; i++) out = out (i > 1 ? ", " : "") items[i]
  return out close_
}
function value(depth, c, n, items, key) {
  skip()
  c = substr(t, p, 1)
  if (depth == 1 && isObject && c != "[" && c != "{" && !isKey) others++
  if (c == "\"") return scalar("^\"([^\"\\\\]|\\\\.)*\"", 4000)
  if (c != "[" && c != "{") return scalar("^[^],} \t]+", 100)
  p++
  for (skip(); p <= length(t) && substr(t, p, 1) !~ /[]}]/; skip()) {
    key = ""
    if (c == "{") { isKey = 1; key = value(depth + 1) ": "; isKey = 0; skip(); p++ }
    items[++n] = key value(depth + 1)
    skip()
    if (substr(t, p, 1) == ",") p++
  }
  p++
  if (depth == 1 && c == "{") others++
  return c == "[" ? "[" keep(items, n, "]", !keys && depth <= isObject) : "{" keep(items, n, "}", keys && depth == 0)
}
{ t = t $0 " " }
END {
  isObject = t ~ /^[ \t]*\{/
  p = 1
  kept = value(0)
  print isObject && others && !keys ? t : kept
}`

/** Shell that prints a JSON file with one entry of what has three or more. A file that keeps its entries keeps its form. */
const keepOne = (keys: 0 | 1): string =>
  String.raw`[ "$(wc -c < "$1")" -lt 100000 ] && kept=$(LC_ALL=C awk -v keys=${keys} '${KEEP_ONE}' "$1")
    [ "$(printf '%s' "$kept" | tr -d ' \t\n')" = "$(tr -d ' \t\n' < "$1")" ] && kept=
    if [ -n "$kept" ]; then printf '%s\n' "$kept"; else cat "$1"; fi
    kept=`

export const oneEntry = alteredAnswers(
  {
    id: 'one-entry',
    what: 'Answers have only one of their rows, lines and list entries, for tests that accept a part of the answer.',
  },
  `case $1 in
  *.json) ${keepOne(0)} ;;
  *.csv | *.tsv) awk '{ l[NR] = $0 } END { print l[1]; if (NR > 3) print l[int((NR + 2) / 2)]; else for (i = 2; i <= NR; i++) print l[i] }' "$1" ;;
  *) awk '{ l[NR] = $0 } END { if (NR > 2) print l[int((NR + 1) / 2)]; else for (i = 1; i <= NR; i++) print l[i] }' "$1" ;;
esac`,
  true,
)

export const oneKey = alteredAnswers(
  { id: 'one-key', what: 'Answers in JSON have only one of their keys, for tests that check the keys that they find.' },
  `case $1 in *.json) ${keepOne(1)} ;; *) cat "$1" ;; esac`,
  true,
)

const FORMATS = 'txt|json|csv|tsv|yaml|yml|xml|md|out|log|dat'

/** Applies only if all work of the solution is data in the working directory: other files would stay right. */
const SOLVE = `
[ "$PWD" = / ] && solution=
applies "$solution"
[ -z "$carried" ] || exit ${DOES_NOT_APPLY}
solve() { "$solution" < /dev/null > /dev/null 2>&1; }
answers=$(printf '%s\\n' "$solved" | grep -E "\\.(${FORMATS})$")
applies "$answers"
[ "$answers" = "$(printf '%s\\n' "$solved" | grep .)" ] || exit ${DOES_NOT_APPLY}
IFS='
'
`

export const changedInputs: Cheat = {
  id: 'changed-inputs',
  what: 'The inputs of the task are changed before it is solved, so that the right answer is another one.',
  usesSolution: true,
  line: `${SHELL}${SOLVE}
inputs=$(sources '*.txt' '*.json' '*.csv' '*.tsv' '*.yaml' '*.yml' '*.xml' '*.log' '*.dat')
applies "$inputs"
before=$(mktemp -d)
cp -a . "$before"
# Times differ between two runs of the same solution.
results() {
  cat $answers 2> /dev/null |
    sed -E 's/[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{2}:[0-9]{2}(:[0-9]{2})?(\\.[0-9]+)?|[0-9]{10,}//g' | cksum
}
restore() { find . -mindepth 1 -maxdepth 1 -exec rm -rf {} + && cp -a "$before/." .; }
# The tests of a task with several steps run all the same, and must not find the right answers.
leave() {
  restore
  exit ${DOES_NOT_APPLY}
}
solve
first=$(results)
restore
solve
[ "$(results)" = "$first" ] || leave
restore
# Numbers and dates stay valid, because no digit becomes larger.
for file in $inputs; do tr 2-9 1 < "$before/$file" > "$file"; done
solve
[ "$(results)" != "$first" ] || leave
rm -rf "$before"
exit 0`,
}
