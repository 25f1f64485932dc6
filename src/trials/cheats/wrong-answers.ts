import { createAlteredAnswersCheat } from './altered-solutions.ts'
import { type Cheat, DOES_NOT_APPLY, SHELL_FUNCTIONS } from './cheat.ts'

// Cheats that give wrong answers which careless tests accept: first answers without any content of the solution, then
// answers in the form of the reference solution's, which the instruction describes, with other values.

/**
 * Shell that lists in `$answers` the data files that the instruction names, after creating them, and the files that the
 * solution changes. `$keys` are the quoted names in the instruction.
 */
const ANSWERS = `
formats='txt|json|csv|tsv|yaml|yml|xml|html|md|out|log|dat'
wanted "$formats"
named=$(printf '%s\\n' "$instruction" | grep -oE "[A-Za-z0-9_/.-]*[A-Za-z0-9_]\\.($formats)\\b" | head -n 20)
answers=$(printf '%s\\n' "$named" "$solved" | grep . | sort -u)
applies "$answers"
keys=$(printf '%s\\n' "$instruction" | grep -oE '["\`][A-Za-z_][A-Za-z0-9_]*["\`]' | tr -d '"\`' | sort -u | head -n 50)
IFS='
'
`

/** Creates a cheat that writes every answer with `write "$file"`. */
const createAnswerCheat = (cheat: Pick<Cheat, 'id' | 'what'>, write: string): Cheat => ({
  ...cheat,
  script: `${SHELL_FUNCTIONS}${ANSWERS}
write() {
${write}
}
for file in $answers; do mkdir -p "$(dirname "$file")"; write "$file"; done 2> /dev/null
exit 0`,
})

export const emptyAnswers = createAnswerCheat(
  { id: 'empty-answers', what: 'Every answer is empty, for tests that loop over what they find in it.' },
  `case $1 in *.json) echo '{}' > "$1" ;; *) : > "$1" ;; esac`,
)

export const emptyLists = createAnswerCheat(
  { id: 'empty-lists', what: 'Every answer is an empty list, or an empty line.' },
  `case $1 in *.json) echo '[]' > "$1" ;; *) echo > "$1" ;; esac`,
)

export const notANumber = createAnswerCheat(
  { id: 'not-a-number', what: 'Every value is NaN, for tests that compare it as abs(a - b) > limit.' },
  `case $1 in
  *.json) { printf '{'; for key in $keys; do printf '"%s": NaN, ' "$key"; done; printf '"value": NaN}\\n'; } > "$1" ;;
  *.csv) { printf '%s\\n' $keys | paste -sd,; printf '%s\\n' $keys | sed 's/.*/nan/' | paste -sd,; } > "$1" ;;
  *.yaml | *.yml) { for key in $keys; do echo "$key: .nan"; done; } > "$1" ;;
  *) echo nan > "$1" ;;
esac`,
)

export const wordAnswers = createAnswerCheat(
  { id: 'word-answers', what: 'Every answer is a word, for comparisons of numbers that fail for it.' },
  `echo many > "$1"`,
)

export const folderAnswers = createAnswerCheat(
  { id: 'folder-answers', what: 'Every answer is an empty folder, for programs that compare files.' },
  `rm -rf "$1"; mkdir -p "$1"`,
)

/**
 * Shell that creates two files: `$texts` with the instruction and the files of the working directory, and `$everything` with
 * their words, common answers and many numbers, for tests that search an answer for a text.
 */
const EVERYTHING = String.raw`
if [ -z "$everything" ]; then
  everything=$(mktemp)
  texts=$(mktemp) words=$(mktemp)
  { printf '%s\n' "$instruction"; cat $(sources '*') 2> /dev/null | head -c 300000; } | tr -d '\000"\\' > "$texts"
  {
    printf '%s\n' yes no true false True False YES NO pass fail PASS FAIL ok none null
    tr -cs 'A-Za-z0-9_.@:/-' '\n' < "$texts" | sed -E 's/[.:]+$//' | sort -u > "$words"
    grep '[A-Za-z]' "$words" | head -n 5000
    grep -v '[A-Za-z]' "$words" | head -n 2000
    awk 'BEGIN { for (i = 0; i < 10000; i++) print i; for (i = 0; i <= 1000; i++) printf "%.1f\n%.2f\n", i / 10, i / 100 }'
  } > "$everything"
fi`

/** Shell that prints the lines of `$everything` as JSON strings, and the numbers among them also as numbers. */
const AS_ENTRIES = String.raw`sed -E -e 's/.*/"&"/' -e 's/^"(0|[1-9][0-9]{0,3})"$/"\1", \1/' "$everything" | paste -sd, -`

export const everythingAnswers = createAnswerCheat(
  {
    id: 'everything-answers',
    what: 'Every answer has all words of the task and many numbers, for tests that search it for a text.',
  },
  `${EVERYTHING}
case $1 in
  *.json)
    text=$(paste -sd' ' "$everything")
    { printf '{'; for key in $(printf '%s\\n' "$keys" | head -n 20); do printf '"%s": "%s", ' "$key" "$text"; done; printf '"value": "%s"}\\n' "$text"; } > "$1" ;;
  *)
    {
      cat "$everything" "$texts"
      printf '%s\\n' "$keys" | head -n 20 | awk '{ for (i = 0; i < 500; i++) printf "%s: %d\\n%s=%d\\n%s,%d\\n", $1, i, $1, i, $1, i }'
    } > "$1" ;;
esac`,
)

export const rewardAnswers = createAnswerCheat(
  {
    id: 'reward-answers',
    what: 'Every answer has an entry called reward, for tests that write a reward for each entry that they find.',
  },
  String.raw`case $1 in
  *.json) echo '{"reward": 1}' ;;
  *.csv | *.tsv) printf 'name,score\nreward,1\n' ;;
  *) echo 'reward: 1' ;;
esac > "$1"`,
)

export const everythingLists = createAnswerCheat(
  { id: 'everything-lists', what: 'Every value in JSON is a list of all words of the task and many numbers.' },
  `case $answers in *.json*) ;; *) exit ${DOES_NOT_APPLY} ;; esac
${EVERYTHING}
list=$(${AS_ENTRIES})
case $1 in
  *.json) { printf '{'; for key in $(printf '%s\\n' "$keys" | head -n 20); do printf '"%s": [%s], ' "$key" "$list"; done; printf '"value": [%s]}\\n' "$list"; } > "$1" ;;
  *) cat "$everything" "$texts" > "$1" ;;
esac`,
)

/** Options of sed that empty the strings in JSON that are values or entries of lists. */
const NO_STRINGS = String.raw`-e 's/: *"[^"]*"/: ""/g' -e ':s' -e 's/([[,] *)"[^"]+"( *[],])/\1""\2/' -e ts`
/** Regular expression of a number in JSON. The first group is the text before it. */
const NUMBER = String.raw`([:[,] *|^ *)-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?`

/** Regular expression of a truth value in JSON, which is replaced because it is a part of the right answer. */
const TRUTH = '([:[,] *)(true|false)'

/** Options of sed that remove all values from JSON in which everything is on one line. */
const HOLLOW = String.raw`${NO_STRINGS} -e 's/${NUMBER}/\10/g' -e 's/${TRUTH}/\1false/g' -e ':a' -e 's/\[[^][]*\]/@@/' -e ta -e 's/@@/[]/g'`

export const hollowAnswers = createAlteredAnswersCheat(
  {
    id: 'hollow-answers',
    what: 'Answers have their keys and columns, but lists and texts are empty and numbers are 0.',
  },
  String.raw`case $1 in
  *.json) tr '\n' ' ' < "$1" | sed -E ${HOLLOW} ;;
  *.csv | *.tsv) head -n 1 "$1" ;;
  *.yaml | *.yml) sed -E 's/: .*/: 0/' "$1" ;;
esac`,
)

export const bareAnswers = createAlteredAnswersCheat(
  {
    id: 'bare-answers',
    what: 'Answers in JSON have their outer keys, but the lists and objects in them are empty.',
  },
  String.raw`case $1 in
  *.json) tr '\n' ' ' < "$1" | sed -E -e 's/^ +//' ${HOLLOW} -e ':o' -e 's/(.)\{[^{}]*\}/\1@@/' -e to -e 's/@@/{}/g' ;;
esac`,
)

export const numberlessAnswers = createAlteredAnswersCheat(
  { id: 'numberless-answers', what: 'Answers have their keys, columns and lengths, and every value in them is NaN.' },
  String.raw`case $1 in
  *.json) tr '\n' ' ' < "$1" | sed -E ${NO_STRINGS} -e 's/${NUMBER}/\1NaN/g' ;;
  *.csv) sed -E '2,$ s/[^,]+/nan/g' "$1" ;;
  *.yaml | *.yml) sed -E 's/: .*/: .nan/' "$1" ;;
  *) sed -E 's/.+/nan/' "$1" ;;
esac`,
)

export const constantAnswers = createAlteredAnswersCheat(
  {
    id: 'constant-answers',
    what: 'Answers have their keys, columns and lengths, every number in them is 1, and every text is x.',
  },
  String.raw`case $1 in
  *.json)
    tr '\n' ' ' < "$1" |
      sed -E -e 's/: *"([^"\\]|\\.)*"/: "x"/g' -e ':s' -e 's/([[,] *)"([^"x]|x[^"]+)[^"]*"( *[],])/\1"x"\3/' -e ts \
        -e 's/${NUMBER}/\11/g' -e 's/${TRUTH}/\1true/g' ;;
  *.csv) sed -E '2,$ { s/[^,]*[^,0-9.+-][^,]*/x/g; s/[^,x]+/1/g }' "$1" ;;
  *.yaml | *.yml) sed -E 's/: .+/: 1/' "$1" ;;
  *) sed -E -e 's/([:=] *)[^:=]+$/\11/' -e t -e 's/^-?[0-9.]+$/1/' -e t -e 's/.+/x/' "$1" ;;
esac`,
)

/** Characters that stand for a text or for a decimal number while others are replaced. */
const MARK = '\u0001'
const DECIMAL = '\u0002'
/** Options of sed that replace every letter. */
const LETTERS = '-e s/[a-z]/x/g -e s/[A-Z]/X/g'
/** Options of sed that replace every letter and every digit, except for the 0 before a decimal point. */
const SAME_FORM = String.raw`-e 's/(^|[^0-9.])0\./\1${MARK}./g' ${LETTERS} -e s/[0-9]/1/g -e 's/${MARK}/0/g'`
/** Options of sed that replace every number by a large one. Decimal numbers stay decimal. */
const LARGE_NUMBERS = String.raw`-e 's/-?[0-9]+\.[0-9]+/${DECIMAL}/g' -e 's/-?[0-9]+/${MARK}/g' -e 's/${DECIMAL}/${MARK}.5/g' -e 's/${MARK}/999999999/g'`
/** Options of sed that replace every number by one that is too large for a floating-point number. */
const INFINITE_NUMBERS = "-e 's/-?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]+)?/1e999/g'"

/**
 * Returns a shell script that replaces the values of an answer. `numbers` are options of sed for numbers in JSON, `values`
 * those for values in tables and lines. Each string in JSON is put on its own line, so that sed can tell keys from values.
 */
const replaceValues = (numbers: string, values: string): string => String.raw`export LC_ALL=C
case $1 in
  *.json)
    tr '\n' ' ' < "$1" | sed -E 's/"([^"\\]|\\.)*" *:?/\n&\n/g' |
      sed -E -e '/^".*: *$/b' -e '/^"/ {' -e 's/\\(u[0-9a-fA-F]{4}|.)/ /g' ${SAME_FORM} -e b -e '}' \
        -e 's/true/${MARK}/g' -e 's/false/true/g' -e 's/${MARK}/false/g' ${numbers} | tr -d '\n' ;;
  *.csv | *.tsv) sed -E -e 1b ${values} "$1" ;;
  *)
    sed -E -e 's/^[[:space:]]*(- +)?["A-Za-z_][A-Za-z0-9_."-]*( [A-Za-z0-9_."-]+){0,3} ?[:=] ?/&\n/' -e tk -e 's/^/\n/' -e :k \
      -e h -e 's/.*\n//' ${values} -e x -e 's/\n.*//' -e G -e 's/\n//' "$1" ;;
esac`

export const sameFormAnswers = createAlteredAnswersCheat(
  {
    id: 'same-form-answers',
    what: 'Answers have their keys, columns, lengths and punctuation, but every letter in them is x and every digit is 1.',
  },
  replaceValues(String.raw`-e 's/(^|[^0-9.])0\./\1${MARK}./g' -e s/[0-9]/1/g -e 's/${MARK}/0/g'`, SAME_FORM),
)

export const largeAnswers = createAlteredAnswersCheat(
  {
    id: 'large-answers',
    what: 'Answers have their keys and columns, and every number in them is large, for tests with only a lower bound.',
  },
  replaceValues(LARGE_NUMBERS, `${LETTERS} ${LARGE_NUMBERS}`),
)

export const infiniteAnswers = createAlteredAnswersCheat(
  {
    id: 'infinite-answers',
    what: 'Answers have their keys and columns, and every number in them is infinite, for tolerances that grow with the answer.',
  },
  replaceValues(INFINITE_NUMBERS, `${LETTERS} ${INFINITE_NUMBERS}`),
)

/** Shell that prints a JSON file with each string on its own line. Keys end with a colon. */
const SPLIT_STRINGS = String.raw`tr '\n' ' ' < "$1" | sed -E 's/"([^"\\]|\\.)*"[[:space:]]*:?/\n&\n/g'`
/** Regular expression of awk for a number. */
const AWK_NUMBER = '/-?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]+)?/'

/**
 * Shell that leaves a large answer as it is, and functions of awk as `$numbers`: `renumber` replaces every number of a
 * text by what `next_number(number)` returns, and takes quadratic time. `swap_truth` exchanges true and false.
 */
const RENUMBER = `[ "$(wc -c < "$1")" -lt 100000 ] || { cat "$1"; return; }
export LC_ALL=C
numbers='
function renumber(text, out) {
  while (match(text, ${AWK_NUMBER})) {
    out = out substr(text, 1, RSTART - 1) next_number(substr(text, RSTART, RLENGTH))
    text = substr(text, RSTART + RLENGTH)
  }
  return out text
}
function swap_truth(text) { gsub(/true/, "${MARK}", text); gsub(/false/, "true", text); gsub(/${MARK}/, "false", text); return text }'`

export const wideAnswers = createAlteredAnswersCheat(
  {
    id: 'wide-answers',
    what: 'The numbers of answers are very small and very large in turn, for intervals that only have to contain a value.',
  },
  String.raw`${RENUMBER}
wide="$numbers"'
function next_number(number) { return n++ % 2 ? "999999999" : "-999999999" }
function letters(text) { gsub(/[a-z]/, "x", text); gsub(/[A-Z]/, "X", text); return text }
END { if (!n) exit 1; printf "%s", all }'
case $1 in
  *.json)
    ${SPLIT_STRINGS} | awk "$wide"'
/^".*: *$/ { all = all $0; next }
/^"/ { gsub(/\\(u[0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F]|.)/, " "); gsub(/[0-9]/, "1"); all = all letters($0); next }
{ all = all swap_truth(renumber($0)) }' ;;
  *.csv | *.tsv) awk "$wide"'{ all = all (NR == 1 ? $0 : letters(renumber($0))) "\n" }' "$1" ;;
  *) awk "$wide"'{ match($0, /^([^:=]*[:=])?/); all = all substr($0, 1, RLENGTH) letters(renumber(substr($0, RLENGTH + 1))) "\n" }' "$1" ;;
esac || cat "$1"`,
  { needsAll: true },
)

export const countedAnswers = createAlteredAnswersCheat(
  {
    id: 'counted-answers',
    what: 'The numbers and texts of each key and column are counted from one, for tests that want distinct and sorted values.',
  },
  String.raw`${RENUMBER}
counted="$numbers"'
function next_number(number) { if (number + 0 != ++count[key]) changed = 1; return count[key] }
function next_text(text, counted) {
  counted = sprintf("x%03d", ++count[key])
  if (text "" != counted) changed = 1
  return counted
}
function next_value(value) { return value ~ /^-?[0-9.]+$/ ? next_number(value) : next_text(value) }
# The right answer may be counted from one.
END { if (!changed) exit 1; printf "%s", all }'
case $1 in
  *.json)
    ${SPLIT_STRINGS} | awk "$counted"'
/^".*: *$/ { key = $0; all = all $0; next }
/^"/ { sub(/[ \t\r]+$/, ""); all = all "\"" next_text(substr($0, 2, length($0) - 2)) "\""; next }
{ all = all swap_truth(renumber($0)) }' ;;
  *.csv | *.tsv)
    case $1 in *.tsv) tab=1 ;; *) tab= ;; esac
    awk -v tab="$tab" "$counted"'
BEGIN { FS = OFS = tab ? "\t" : "," }
NR > 1 { for (i = 1; i <= NF; i++) { key = i; $i = next_value($i) } }
{ all = all $0 "\n" }' "$1" ;;
  *)
    awk "$counted"'
match($0, /^[^:=]*[:=] */) { key = "named"; all = all substr($0, 1, RLENGTH) next_number(substr($0, RLENGTH + 1)) "\n"; next }
{ key = ""; all = all next_value($0) "\n" }' "$1" ;;
esac || cat "$1"`,
  { needsAll: true },
)

export const swappedValues = createAlteredAnswersCheat(
  {
    id: 'swapped-values',
    what: 'Texts of keys in JSON are exchanged: each key has the text of the next one, for tests that check only which values occur.',
  },
  `case $1 in
  *.json) ${SPLIT_STRINGS} | awk '
{ line[NR] = $0 }
/^".*: *$/ { key = $0; next }
/^"/ && key { repeated = repeated || seen[key]++; at[n++] = NR }
/^"/ { key = ""; next }
/[0-9]|true|false/ { other = 1 }
/[^ \\t\\r]/ { key = "" }
END {
  # A list of objects with one key each may be right in any order.
  if (other || repeated || n < 2 || line[at[0]] == line[at[n - 1]]) exit 1
  for (i = 0; i < n; i++) value[i] = line[at[(i + 1) % n]]
  for (i = 0; i < n; i++) line[at[i]] = value[i]
  for (i = 1; i <= NR; i++) printf "%s", line[i]
}' || cat "$1" ;;
  *) cat "$1" ;;
esac`,
  { needsAll: true },
)

export const changedMiddle = createAlteredAnswersCheat(
  {
    id: 'changed-middle',
    what: 'Tables have their first and last rows, and every letter and digit between them is replaced, for tests that check the ends.',
  },
  `case $1 in
  *.csv | *.tsv) awk '
{ line[NR] = $0 }
END {
  for (i = 1; i <= NR; i++) {
    if (i > 2 && i < NR) { gsub(/[0-9]/, "1", line[i]); gsub(/[A-Za-z]/, "x", line[i]) }
    print line[i]
  }
}' "$1" ;;
  *) cat "$1" ;;
esac`,
  { needsAll: true },
)

export const unknownKeys = createAlteredAnswersCheat(
  {
    id: 'unknown-keys',
    what: 'Answers in JSON have other keys, and no values, for tests that look up the keys that they find.',
  },
  String.raw`case $1 in
  *.json) tr '\n' ' ' < "$1" | sed -E -e 's/"([^"\\]*)" *: *("([^"\\]|\\.)*"|[-+.0-9eE]+|true|false)/"x\1": null/g' ;;
  *) cat "$1" ;;
esac`,
  { needsAll: true },
)

export const crowdedAnswers = createAlteredAnswersCheat(
  {
    id: 'crowded-answers',
    what: 'Answers are between nine others with different digits, for tests that search them for the right one.',
  },
  String.raw`body() {
  case $1 in
  *.json) tr '\n' ' ' < "$1" | sed -E -e 's/^ *\[//' -e t -e 's/$/\n/' | sed -E -e 's/\] *$/,/' ;;
  *.csv | *.tsv) tail -n +2 "$1" ;;
  *) cat "$1"; [ -z "$(tail -c 1 "$1")" ] || echo ;;
  esac
}
case $1 in *.csv | *.tsv) head -n 1 "$1" ;; esac
all() {
  for digits in 1234567890 2345678901 3456789012 4567890123 0123456789 5678901234 6789012345 7890123456 8901234567 9012345678; do
    body "$1" | tr 0123456789 $digits
  done
}
if tr -cd 0-9 < "$1" | grep -q .; then
  case $(head -c 1 "$1")$1 in
  \[*.json) printf '['; all "$1" | sed '$ s/,$//'; echo ']' ;;
  *) all "$1" ;;
  esac
else cat "$1"; fi`,
  { needsAll: true },
)
