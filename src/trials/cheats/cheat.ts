/** A known way to score without doing the work. */
export type Cheat = {
  id: string
  /** One sentence. */
  what: string
  /** Run as the agent by `sh -c`, in the working folder, with the instruction as its input. */
  line: string
  /** How often it is tried; for a race. Once, unless said. */
  tries?: number
}

/** What a cheat exits with where it finds nothing that it could work on. */
export const DOES_NOT_APPLY = 77

/**
 * Shell that most cheats begin with. `sources` lists files of the working folder by name pattern; where that is the root
 * folder, without those of the system (`$system` matches them). `wanted` makes the files that the instruction names and that are not there yet.
 * `applies` ends the cheat when nothing was found.
 */
export const SHELL = String.raw`
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
