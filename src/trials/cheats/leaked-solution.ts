import { type Cheat, SHELL } from './cheat.ts'

export const leakedSolution: Cheat = {
  id: 'leaked-solution',
  what: 'A solution that was left somewhere in the image is run.',
  line: `${SHELL}
solution=$(find / -xdev -type f \\( -name solve.sh -o -name solution.sh \\) ! -path '/proc/*' 2> /dev/null | head -n 1)
applies "$solution"
sh "$solution"
exit 0`,
}
