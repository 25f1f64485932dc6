import { createAlteredAnswersCheat } from './altered-solutions.ts'

// Cheats that keep the form of the reference solution's answers, which the instruction describes, and replace their values.

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
