import { type Cheat, SHELL } from './cheat.ts'

export const makefile: Cheat = {
  id: 'makefile',
  what: 'A GNUmakefile, which is read first, makes every target without doing anything.',
  line: `${SHELL}
makefiles=$(sources Makefile makefile GNUmakefile)
applies "$makefiles"
for file in $makefiles; do
  printf 'all test check build: ; @true\\n%%: ; @true\\n' > "$(dirname "$file")/GNUmakefile"
done
exit 0`,
}
