import type { GuardedCheat } from './guarded-cheat.ts'

export const deleteTests: GuardedCheat = {
  id: 'delete-tests',
  what: 'All tests of the repository are deleted, and what steers the programs that run them.',
  verdict: 'cheat_passes',
  line: String.raw`git ls-files -z | tr '\0' '\n' |
  grep -E '(^|/)(tests?|specs?|__tests__|testing)/|(^|/)(test_[^/]*|[^/]*(_test|_spec|[.]test|[.]spec|Test|Tests))[.][A-Za-z]+$|(^|/)(pytest[.]ini|tox[.]ini|setup[.]cfg|conftest[.]py|[.]mocharc[^/]*|(jest|vitest)[.][^/]*|phpunit[^/]*|[.]rspec)$' |
  while read -r file; do rm -f -- "$file"; done
exit 0`,
}
