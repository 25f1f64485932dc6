import { type Cheat, DOES_NOT_APPLY } from './cheat.ts'
import { TAKE_OVER, TAKE_OVER_CODE } from './take-over.ts'
import { PROGRAMS } from './yes-programs.ts'

const { py, js, pl, rb } = TAKE_OVER_CODE

/** Usual names of a program that a task asks for. The names in a folder that the solution creates are not known here. */
const ENTRY_POINTS = 'run main start app tool cli server entrypoint run.sh main.sh main.py app.py main.js index.js'

export const carriedFiles: Cheat = {
  id: 'carried-files',
  what: 'Paths outside the working directory that reach the tests become programs and modules that write the reward.',
  line: `[ -n "$carried" ] || exit ${DOES_NOT_APPLY}
{
fill() {
  case $1 in
    *.py) printf '%s\\n' '${py}' > "$1" ;;
    *.js | *.mjs | *.cjs) printf '%s\\n' '${js.replaceAll("'", '"')}' > "$1" ;;
    *.pl | *.pm) printf '%s\\n' '${pl}' > "$1" ;;
    *.rb) printf '%s\\n' '${rb}' > "$1" ;;
    *) printf '%s\\n' '#!/bin/sh' '${TAKE_OVER}' > "$1" ;;
  esac
  chmod 755 "$1"
}
IFS='
'
for path in $carried; do
  if [ -e "$path" ] && [ ! -d "$path" ]; then fill "$path"; continue; fi
  case $path in */*.*) mkdir -p "$(dirname "$path")"; fill "$path"; continue ;; esac
  mkdir -p "$path/bin" || continue
  for file in $(find "$path" -type f | head -n 500); do fill "$file"; done
  IFS=' '
  for name in conftest.py sitecustomize.py usercustomize.py ${ENTRY_POINTS}; do fill "$path/$name"; done
  for name in ${PROGRAMS}; do fill "$path/$name"; fill "$path/bin/$name"; done
  IFS='
'
done
} 2> /dev/null
exit 0`,
}
