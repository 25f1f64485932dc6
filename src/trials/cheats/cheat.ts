/** A known way to pass without doing the work. */
export type Cheat = {
  id: string
  /** Description in one sentence. Part of the calibration result. */
  what: string
  /**
   * Shell script that runs as the agent, in the working directory, with the instruction on standard input. `$carried`
   * lists the paths that the verifier takes over by name, as in `TrialRequest`, and `$solved` the files that the reference
   * solution changes, one per line.
   */
  script: string
  /** The reference solution is in the sandbox; `$solution` is the path of its script, empty if there is none. */
  usesSolution?: boolean | undefined
  /** Maximum number of tries, for cheats that depend on a race. Default: 1. */
  tries?: number | undefined
}

/** Exit code of a cheat that does not apply to the task. */
export const DOES_NOT_APPLY = 77

/**
 * Shell functions for cheats. `sources` lists files of the working directory by name pattern. If the working directory
 * is the root folder, system files are left out (`$system` matches them). `wanted` creates the files that the
 * instruction names and that do not exist yet. `applies` ends the cheat if its argument is empty.
 */
export const SHELL_FUNCTIONS = String.raw`
instruction=$(cat)
system='^$'
[ "$PWD" = / ] && system='^\./(proc|sys|dev|usr|lib|lib32|lib64|bin|sbin|etc|var|run|boot|opt)/'
sources() {
  for pattern in "$@"; do
    find . -xdev \( -path ./.git -o -name node_modules -o -name .venv \) -prune \
      -o -type f -size -256k -name "$pattern" -print 2>/dev/null
  done | grep -vE "$system" | head -n 200
}
wanted() {
  printf '%s\n' "$instruction" | grep -oE "[A-Za-z0-9_/.-]*[A-Za-z0-9_]\.($1)\b" | sort -u | head -n 20 |
    while read -r file; do
      [ -e "$file" ] || { mkdir -p "$(dirname "$file")" && : > "$file" && chmod 755 "$file"; } 2>/dev/null
    done
}
applies() { [ -n "$1" ] || exit ${DOES_NOT_APPLY}; }
`

/** Names of programs that test scripts call. */
export const PROGRAMS =
  'python3 python pytest py.test node npm npx yarn pnpm bun deno jest mocha vitest go cargo rustc make cmake ctest gcc g++ cc java mvn gradle ruby rspec bundle php perl bash cat grep egrep diff cmp test jq curl git uv uvx pip pip3 tox'

/** Returns shell that fills a folder with copies of a program under these names, in few processes. */
export const copyProgram = (program: string, folder: string, names: string): string =>
  `(cd "${folder}" && { tee ${names} < "${program}" > /dev/null; chmod 755 ${names}; })`
