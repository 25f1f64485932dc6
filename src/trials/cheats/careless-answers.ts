import { type Cheat, DOES_NOT_APPLY, SHELL_FUNCTIONS } from './cheat.ts'

// Cheats that give answers which careless comparisons accept.

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
