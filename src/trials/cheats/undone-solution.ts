import { type Cheat, DOES_NOT_APPLY, SHELL } from './cheat.ts'

/**
 * Shell that runs the reference solution, lists the text files that it wrote as `$texts`, keeps copies of them below
 * `$right`, and undoes everything it did. A file of which it changed only the mode is not listed. `undo` undoes later
 * changes to the same paths, and `leave` also ends the cheat, because the tests of a task with several steps run all the
 * same and must not find right answers. `put FILE` writes standard input to a file that has the mode of the solution's.
 */
const SOLVE_AND_UNDO = `
applies "$solution"
set -f
IFS='
'
work=$(for path in $solved $carried; do case $path in /*) echo "$path" ;; *) echo "\${PWD%/}/$path" ;; esac; done | sort -u)
applies "$work"
before=$(mktemp -d) right=$(mktemp -d)
copy() { mkdir -p "$2$(dirname "$1")" && cp -a "$1" "$2$1"; }
undo() {
  for path in $work; do
    rm -rf "$path"
    [ ! -e "$before$path" ] || { mkdir -p "$(dirname "$path")" && cp -a "$before$path" "$path"; }
  done
}
leave() { undo; exit ${DOES_NOT_APPLY}; }
put() { mkdir -p "$(dirname "$1")" && cp -a "$right$1" "$1" && cat > "$1"; }
is_text() { [ -s "$1" ] && tr -d '\\000' < "$1" | cmp -s - "$1"; }
for path in $work; do [ ! -e "$path" ] || copy "$path" "$before"; done 2> /dev/null
"$solution" < /dev/null > /dev/null 2>&1
files=$(for path in $work; do find "$path" -xdev -type f -size -2048k 2> /dev/null; done | sort -u | head -n 200)
texts=$(for file in $files; do is_text "$file" && ! cmp -s "$before$file" "$file" && echo "$file"; done 2> /dev/null)
for file in $texts; do copy "$file" "$right"; done
undo
[ -n "$texts" ] || leave
`

/** Creates a cheat that starts from what the reference solution wrote, after its work is undone. */
export const undoneSolution = (cheat: Pick<Cheat, 'id' | 'what'>, line: string): Cheat => ({
  ...cheat,
  usesSolution: true,
  line: `${SHELL}${SOLVE_AND_UNDO}${line}`,
})

/** Names of files that hold answers or settings and no code. */
const DATA_NAME = String.raw`(\.(txt|json|csv|tsv|yaml|yml|xml|md|out|log|dat|conf|cfg|ini|toml|properties|env)|/[a-z0-9_-]+)$`

/**
 * Creates a cheat that replaces every data file of the solution by what `alter "$file"` prints. Other files stay as they
 * were before the solution. `needsAll`: it does not apply if a file stays as it is, because the tests may need only that
 * one.
 */
export const alteredAnswers = (cheat: Pick<Cheat, 'id' | 'what'>, alter: string, needsAll = false): Cheat =>
  undoneSolution(
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
