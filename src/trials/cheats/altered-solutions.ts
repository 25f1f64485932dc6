import { type Cheat, DOES_NOT_APPLY, SHELL_FUNCTIONS } from './cheat.ts'

/**
 * Shell that runs the reference solution, lists the text files that it wrote as `$texts` and other files as
 * `$binaries`, copies them to `$right`, and restores the files as they were before. Files of which the solution changed
 * only the mode are not listed. `undo` restores the same paths again. `leave` restores them and reports that the cheat
 * does not apply: later steps of the task run nevertheless and must not find right answers. `put FILE` writes standard
 * input to a file, with the mode that the solution gave it.
 */
const SOLVE_AND_UNDO = `
applies "$solution"
set -f
IFS='
'
work=$(for path in $solved $carried; do case $path in /*) echo "$path" ;; *) echo "\${PWD%/}/$path" ;; esac; done | sort -u)
applies "$work"
before=$(mktemp -d) right=$(mktemp -d)
folders=$(for path in $work; do while path=$(dirname "$path"); [ ! -e "$path" ]; do echo "$path"; done; done | sort -ru)
copy() { mkdir -p "$2$(dirname "$1")" && cp -a "$1" "$2$1"; }
undo() {
  for path in $work; do
    rm -rf "$path"
    [ ! -e "$before$path" ] || { mkdir -p "$(dirname "$path")" && cp -a "$before$path" "$path"; }
  done
  rmdir $folders 2> /dev/null
}
leave() { undo; exit ${DOES_NOT_APPLY}; }
put() { mkdir -p "$(dirname "$1")" && cp -a "$right$1" "$1" && cat > "$1"; }
is_text() { [ -s "$1" ] && tr -d '\\000' < "$1" | cmp -s - "$1"; }
for path in $work; do [ ! -e "$path" ] || copy "$path" "$before"; done 2> /dev/null
"$solution" < /dev/null > /dev/null 2>&1
files=$(for path in $work; do find "$path" -xdev -type f -size -2048k 2> /dev/null; done | sort -u | head -n 200)
written=$(for file in $files; do cmp -s "$before$file" "$file" || echo "$file"; done 2> /dev/null)
texts=$(for file in $written; do is_text "$file" && echo "$file"; done)
binaries=$(for file in $written; do is_text "$file" || echo "$file"; done)
for file in $written; do copy "$file" "$right"; done
undo
[ -n "$written" ] || leave
`

/** Creates a cheat that has copies of the files that the reference solution wrote, after its work was undone. */
export const createUndoneSolutionCheat = (cheat: Pick<Cheat, 'id' | 'what'>, script: string): Cheat => ({
  ...cheat,
  usesSolution: true,
  script: `${SHELL_FUNCTIONS}${SOLVE_AND_UNDO}${script}`,
})

/** Names of files that hold answers or settings and no code. */
const DATA_NAME = String.raw`(\.(txt|json|csv|tsv|yaml|yml|xml|md|out|log|dat|conf|cfg|ini|toml|properties|env)|/[a-z0-9_-]+)$`

/**
 * Creates a cheat that replaces every data file of the solution by the output of `alter "$file"`. Other files stay as
 * they were before the solution. With `needsAll`, the cheat does not apply unless it alters every data file: the tests
 * may check only one that is unaltered.
 */
export const createAlteredAnswersCheat = (
  cheat: Pick<Cheat, 'id' | 'what'>,
  alter: string,
  { needsAll = false } = {},
): Cheat =>
  createUndoneSolutionCheat(
    cheat,
    `answers=$(for file in $texts; do head -c 2 "$right$file" | grep -q '#!' || echo "$file"; done | grep -E '${DATA_NAME}')
[ -n "$answers" ] || leave
alter() {
${alter}
}
altered=$(mktemp)
changed= same=
for file in $answers; do
  alter "$right$file" > "$altered" 2> /dev/null
  if cmp -s "$altered" "$right$file"; then same=1; else changed=1; fi
  put "$file" < "$altered"
done
rm -f "$altered"
[ -n "$changed" ]${needsAll ? ' && [ -z "$same" ]' : ''} && exit 0
leave`,
  )

/**
 * Program of awk that prints JSON with only the middle entry, or the first if `first` is set, of a list, of each list in
 * an object of lists, or, if `keys` is set, of an object. Other JSON is printed unchanged: a value beside a list may be all that the tests check.
 * `t` is the whole text, `p` the position in it, and `value` prints the JSON value at this position.
 */
const KEEP_ONE = String.raw`
function skip() { while (substr(t, p, 1) ~ /[ \t]/) p++ }
function scalar(pattern, length_, start) {
  start = p
  p += match(substr(t, p, length_), pattern) == 1 ? RLENGTH : 1
  return substr(t, start, p - start)
}
function keep(items, n, close_, one, i, out) {
  if (one && n > 2) out = items[first ? 1 : int((n + 1) / 2)]
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

/**
 * Shell that prints a JSON file with KEEP_ONE. A file in which nothing is left out is printed unchanged, with its white
 * space.
 */
const renderKeepOne = (keys: 0 | 1, first: 0 | 1 = 0): string =>
  String.raw`[ "$(wc -c < "$1")" -lt 100000 ] && kept=$(LC_ALL=C awk -v keys=${keys} -v first=${first} '${KEEP_ONE}' "$1")
    [ "$(printf '%s' "$kept" | tr -d ' \t\n')" = "$(tr -d ' \t\n' < "$1")" ] && kept=
    if [ -n "$kept" ]; then printf '%s\n' "$kept"; else cat "$1"; fi
    kept=`

export const oneEntry = createAlteredAnswersCheat(
  {
    id: 'one-entry',
    what: 'Answers have only one of their rows, lines and list entries, for tests that accept a part of the answer.',
  },
  `case $1 in
  *.json) ${renderKeepOne(0)} ;;
  *.csv | *.tsv) awk '{ l[NR] = $0 } END { print l[1]; if (NR > 3) print l[int((NR + 2) / 2)]; else for (i = 2; i <= NR; i++) print l[i] }' "$1" ;;
  *) awk '{ l[NR] = $0 } END { if (NR > 2) print l[int((NR + 1) / 2)]; else for (i = 1; i <= NR; i++) print l[i] }' "$1" ;;
esac`,
  { needsAll: true },
)

export const firstEntry = createAlteredAnswersCheat(
  {
    id: 'first-entry',
    what: 'Answers have only the first of their rows, lines, list entries or characters, for tests that accept a beginning.',
  },
  `case $1 in
  *.json) ${renderKeepOne(0, 1)} ;;
  *.csv | *.tsv) head -n 2 "$1" ;;
  *) if [ "$(awk 'END { print NR }' "$1")" -gt 1 ]; then head -n 1 "$1"; elif [ "$(wc -c < "$1")" -gt 8 ]; then head -c 1 "$1"; else cat "$1"; fi ;;
esac`,
  { needsAll: true },
)

export const oneKey = createAlteredAnswersCheat(
  { id: 'one-key', what: 'Answers in JSON have only one of their keys, for tests that check the keys that they find.' },
  `case $1 in *.json) ${renderKeepOne(1)} ;; *) cat "$1" ;; esac`,
  { needsAll: true },
)

export const copiedInputs = createAlteredAnswersCheat(
  {
    id: 'copied-inputs',
    what: 'Answers are copies of the inputs that are most like them, for tests that do not notice what was not done.',
  },
  `# Below the root folder, there are also the solution and the copies of its answers.
[ -n "$inputs" ] || inputs=$(
  [ "$PWD" != / ] || system="$system|^[.]/(tmp|solution)/"
  for input in $(sources '*.txt' '*.json' '*.csv' '*.tsv' '*.yaml' '*.yml' '*.xml' '*.md' '*.log' '*.dat' '*.conf'); do
    case \${PWD%/}/\${input#./} in
    ("\${solution%/*}"/* | "$right"/* | "$before"/*) ;;
    (*) [ ! -r "$input" ] || echo "$input" ;;
    esac
  done | head -n 100
)
others=$(for input in $inputs; do [ "\${PWD%/}/\${input#./}" = "\${1#"$right"}" ] || echo "$input"; done)
best=$(awk '
function ending(path) { sub(/.*[.]/, "", path); return path }
FNR == NR { line[$0]; next }
FNR == 1 { like[FILENAME] = ending(FILENAME) == ending(ARGV[1]) }
$0 in line { like[FILENAME] += 2 }
END {
  most = -1
  for (i = 2; i < ARGC; i++) if (ARGV[i] in like && like[ARGV[i]] > most) { most = like[ARGV[i]]; best = ARGV[i] }
  print best
}' "$1" $others)
cat "\${best:-$1}"`,
  { needsAll: true },
)

/** Endings of data files. */
const FORMATS = 'txt|json|csv|tsv|yaml|yml|xml|md|out|log|dat'

/**
 * Shell that defines `solve`. The cheat does not apply unless the solution writes only data files in the working
 * directory, because other files would stay right.
 */
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
  script: `${SHELL_FUNCTIONS}${SOLVE}
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
# Later steps of the task run nevertheless, and must not find the right answers.
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

/**
 * Shell function that prints a file with all its lines as comments. Python keeps its functions and classes, without their
 * bodies. Returns false for files that cannot have comments.
 */
const COMMENT_OUT = String.raw`
lines() { sed -e '1 { /^#!/b' -e '}' -e "s|^|$1|" "$2"; }
comment_out() {
  case ${'$'}{1##*/} in
    *.py) sed -E -e '1 { /^#!/b' -e '}' -e '/^ *(async +)?(def|class) .*:[[:space:]]*(#.*)?$/ {' -e 's/^( *)(.*)$/\1\2\n\1    pass/' -e b -e '}' -e 's/^( *)(.*)$/\1# \2/' "$1" ;;
    *.js | *.ts | *.jsx | *.tsx | *.mjs | *.cjs | *.c | *.h | *.cc | *.cpp | *.cxx | *.hpp | *.go | *.rs | *.java | *.kt | *.kts | *.scala | *.swift | *.php | *.cs | *.dart | *.proto | *.groovy | *.gradle) lines '// ' "$1" ;;
    *.sql | *.lua | *.hs) lines '-- ' "$1" ;;
    *.html | *.htm | *.xml | *.svg | *.vue) echo '<!--'; cat "$1"; echo '-->' ;;
    *.css | *.scss | *.less) echo '/*'; cat "$1"; echo '*/' ;;
    *.tex | *.erl) lines '% ' "$1" ;;
    *.sh | *.bash | *.rb | *.pl | *.pm | *.yaml | *.yml | *.toml | *.conf | *.cfg | *.ini | *.env | *.properties | *.tf | *.r | *.R | *.ex | *.exs | *.jl | *.mk | *.cmake | *.service | *.timer | *ockerfile* | *akefile* | .*ignore) lines '# ' "$1" ;;
    *) head -c 2 "$1" | grep -q '#!' && lines '# ' "$1" ;;
  esac
}
`

export const commentedSolution = createUndoneSolutionCheat(
  {
    id: 'commented-solution',
    what: 'The code and settings of the solution are comments, for tests that only search the text of files.',
  },
  `${COMMENT_OUT}
commented=$(mktemp)
changed=
for file in $texts; do
  comment_out "$right$file" > "$commented" && changed=1 && put "$file" < "$commented"
done 2> /dev/null
[ -n "$changed" ] || leave
# Other files that the solution creates exist, but are empty.
for file in $files; do [ -e "$file" ] || { mkdir -p "$(dirname "$file")" && : > "$file"; }; done
exit 0`,
)

/** Bytes of a binary file that hold its format: sizes of a picture, the rate of a sound, the shape of an array. */
const HEADER_BYTES = 128
/** Minimum size of a file that is blanked. The first bytes of a smaller one may be enough to pass. */
const BLANKED_BYTES_MIN = 1024

export const removedFiles = createUndoneSolutionCheat(
  {
    id: 'removed-files',
    what: 'Files that the solution changes are removed, with their folders if they are empty then, for tests that skip what is missing.',
  },
  `removed=$(for file in $written; do [ ! -e "$file" ] || echo "$file"; done)
[ -n "$removed" ] || leave
for file in $removed; do
  rm -f "$file"
  [ "$(dirname "$file")" = "$PWD" ] || rmdir "$(dirname "$file")"
done 2> /dev/null
exit 0`,
)

export const emptyFolders = createUndoneSolutionCheat(
  {
    id: 'empty-folders',
    what: 'The folders that the solution creates are empty, for tests that loop over the files that they find.',
  },
  `created=$(for file in $written; do [ -e "$(dirname "$file")" ] || dirname "$file"; done | sort -u)
[ -n "$created" ] || leave
mkdir -p $created
exit 0`,
)

export const oneFile = createUndoneSolutionCheat(
  {
    id: 'one-file',
    what: 'Of several files that the instruction names, or in a folder that the solution creates, only the first exists.',
  },
  `wanted=$(for file in $written; do
  if [ ! -e "$(dirname "$file")" ]; then echo "$file"; else case $instruction in *"$(basename "$file")"*) echo "$file" ;; esac; fi
done)
first=$(printf '%s\\n' "$wanted" | head -n 1)
[ "$wanted" != "$first" ] || leave
put "$first" < "$right$first"
exit 0`,
)

export const blankedFiles = createUndoneSolutionCheat(
  {
    id: 'blanked-files',
    what: 'Pictures, sounds and other binary files have their size and their first bytes, and the rest of them is zeros.',
  },
  `blanked=$(mktemp)
changed= same=
for file in $binaries; do
  size=$(wc -c < "$right$file")
  [ "$size" -ge ${BLANKED_BYTES_MIN} ] || continue
  { head -c ${HEADER_BYTES} "$right$file"; head -c $((size - ${HEADER_BYTES})) /dev/zero; } > "$blanked"
  if cmp -s "$blanked" "$right$file"; then same=1; else changed=1; fi
  put "$file" < "$blanked"
done
rm -f "$blanked"
[ -n "$changed" ] && [ -z "$same" ] && exit 0
leave`,
)
