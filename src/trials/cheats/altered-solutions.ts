import { type Cheat, DOES_NOT_APPLY, SHELL } from './cheat.ts'

// Cheats that run the reference solution. Two keep the form of its answers, which the instruction describes, and remove
// their content. The third shows whether tests notice a changed input.

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

/** Creates a cheat that replaces every answer of the solution by what `alter "$file"` prints. */
const alteredAnswers = (cheat: Pick<Cheat, 'id' | 'what'>, alter: string): Cheat => ({
  ...cheat,
  usesSolution: true,
  line: `${SHELL}${SOLVE}
alter() {
${alter}
}
solve
altered=$(mktemp)
changed=
for file in $answers; do
  [ -f "$file" ] || continue
  alter "$file" > "$altered" 2> /dev/null
  cmp -s "$altered" "$file" && continue
  cat "$altered" > "$file" && changed=1
done
rm -f "$altered"
[ -n "$changed" ] && exit 0
# The tests of a task with several steps run all the same, and must not find the right answers.
for file in $answers; do rm -f "$file"; done
exit ${DOES_NOT_APPLY}`,
})

/** Empties the strings in JSON that are values or entries of lists. */
const NO_STRINGS = String.raw`-e 's/: *"[^"]*"/: ""/g' -e ':s' -e 's/([[,] *)"[^"]+"( *[],])/\1""\2/' -e ts`
const NUMBER = String.raw`([:[,] *|^ *)-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?`

export const hollowAnswers = alteredAnswers(
  {
    id: 'hollow-answers',
    what: 'Answers have their keys and columns, but lists and texts are empty and numbers are 0.',
  },
  String.raw`case $1 in
  *.json)
    tr '\n' ' ' < "$1" | sed -E ${NO_STRINGS} -e 's/${NUMBER}/\10/g' -e ':a' -e 's/\[[^][]*\]/@@/' -e ta -e 's/@@/[]/g' ;;
  *.csv | *.tsv) head -n 1 "$1" ;;
  *.yaml | *.yml) sed -E 's/: .*/: 0/' "$1" ;;
esac`,
)

export const numberlessAnswers = alteredAnswers(
  { id: 'numberless-answers', what: 'Answers have their keys, columns and lengths, and every value in them is NaN.' },
  String.raw`case $1 in
  *.json) tr '\n' ' ' < "$1" | sed -E ${NO_STRINGS} -e 's/${NUMBER}/\1NaN/g' ;;
  *.csv) sed -E '2,$ s/[^,]+/nan/g' "$1" ;;
  *.yaml | *.yml) sed -E 's/: .*/: .nan/' "$1" ;;
  *) sed -E 's/.+/nan/' "$1" ;;
esac`,
)

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
