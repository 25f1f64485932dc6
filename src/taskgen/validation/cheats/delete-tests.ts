import { languages } from '../../../grading/languages/languages.ts'
import type { GuardedCheat } from './guarded-cheat.ts'

const CONFIGURATION = languages.flatMap(({ testConfiguration }) => testConfiguration).join('|')

export const deleteTests: GuardedCheat = {
  id: 'delete-tests',
  what: 'All tests of the repository are deleted, and what steers the programs that run them.',
  verdict: 'cheat_passes',
  line: String.raw`git ls-files -z | tr '\0' '\n' |
  grep -E '(^|/)(tests?|specs?|__tests__|testing)/|(^|/)(test_[^/]*|[^/]*(_test|_spec|[.]test|[.]spec|Test|Tests))[.][A-Za-z]+$|(^|/)(${CONFIGURATION})$' |
  while read -r file; do rm -f -- "$file"; done
exit 0`,
}
