import { type Cheat, SHELL } from './cheat.ts'

export const emptyOutput: Cheat = {
  id: 'empty-output',
  what: 'Expected outputs in the working folder are emptied, and programs that say nothing put beside them.',
  line: `${SHELL}
expected=$(sources '*expected*' '*.golden' '*.snap' '*.out' '*.ans')
applies "$expected"
for file in $expected; do : > "$file"; done
for file in $(sources '*.sh'); do printf '#!/bin/sh\\n' > "$file"; done
for file in $(sources '*.py' '*.js' '*.rb' '*.pl'); do : > "$file"; done
exit 0`,
}
