import { type Cheat, SHELL } from './cheat.ts'

// Cheats that give answers which careless comparisons accept.

/** Lists the data files that the instruction names, after creating them, and the files that the solution changes. */
const ANSWERS = `
formats='txt|json|csv|tsv|yaml|yml|xml|html|md|out|log|dat'
wanted "$formats"
named=$(printf '%s\\n' "$instruction" | grep -oE "[A-Za-z0-9_/.-]*[A-Za-z0-9_]\\.($formats)\\b" | head -n 20)
answers=$(printf '%s\\n' "$named" "$solved" | grep . | sort -u)
applies "$answers"
IFS='
'
`

/** Creates a cheat that writes every answer with `write "$file"`. */
const answerCheat = (cheat: Pick<Cheat, 'id' | 'what'>, write: string): Cheat => ({
  ...cheat,
  line: `${SHELL}${ANSWERS}
write() {
${write}
}
for file in $answers; do mkdir -p "$(dirname "$file")"; write "$file"; done 2> /dev/null
exit 0`,
})

export const emptyAnswers = answerCheat(
  { id: 'empty-answers', what: 'Every answer is empty, for tests that loop over what they find in it.' },
  `case $1 in *.json) echo '{}' > "$1" ;; *) : > "$1" ;; esac`,
)

export const emptyLists = answerCheat(
  { id: 'empty-lists', what: 'Every answer is an empty list, or an empty line.' },
  `case $1 in *.json) echo '[]' > "$1" ;; *) echo > "$1" ;; esac`,
)

export const notANumber = answerCheat(
  { id: 'not-a-number', what: 'Every value is NaN, for tests that compare it as abs(a - b) > limit.' },
  `keys=$(printf '%s\\n' "$instruction" | grep -oE '["\`][A-Za-z_][A-Za-z0-9_]*["\`]' | tr -d '"\`' | sort -u | head -n 50)
case $1 in
  *.json) { printf '{'; for key in $keys; do printf '"%s": NaN, ' "$key"; done; printf '"value": NaN}\\n'; } > "$1" ;;
  *.csv) { printf '%s\\n' $keys | paste -sd,; printf '%s\\n' $keys | sed 's/.*/nan/' | paste -sd,; } > "$1" ;;
  *.yaml | *.yml) { for key in $keys; do echo "$key: .nan"; done; } > "$1" ;;
  *) echo nan > "$1" ;;
esac`,
)

export const wordAnswers = answerCheat(
  { id: 'word-answers', what: 'Every answer is a word, for comparisons of numbers that fail for it.' },
  `echo many > "$1"`,
)

export const folderAnswers = answerCheat(
  { id: 'folder-answers', what: 'Every answer is an empty folder, for programs that compare files.' },
  `rm -rf "$1"; mkdir -p "$1"`,
)
