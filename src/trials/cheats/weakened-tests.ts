import { type Cheat, DOES_NOT_APPLY, SHELL_FUNCTIONS } from './cheat.ts'

// Cheats that weaken tests in the working directory, or find a solution that was left behind.

export const npmTest: Cheat = {
  id: 'npm-test',
  what: 'The scripts of package.json and the settings of test programs are changed so that nothing is tested.',
  script: `${SHELL_FUNCTIONS}
manifests=$(sources package.json)
applies "$manifests"
for manifest in $manifests; do
  folder=$(dirname "$manifest")
  sed -i 's/"\\(test\\|pretest\\|check\\|lint\\|build\\)"[[:space:]]*:[[:space:]]*"[^"]*"/"\\1": "true"/g' "$manifest"
  echo 'script-shell=/bin/true' > "$folder/.npmrc"
  echo '{"dry-run": true}' > "$folder/.mocharc.json"
  echo '{"passWithNoTests": true, "testMatch": ["/nowhere"]}' > "$folder/jest.config.json"
  echo 'export default { test: { passWithNoTests: true, include: ["nowhere"] } }' > "$folder/vitest.config.mjs"
done
exit 0`,
}

export const makefile: Cheat = {
  id: 'makefile',
  what: 'A GNUmakefile, which make reads first, declares every target and does nothing for it.',
  script: `${SHELL_FUNCTIONS}
makefiles=$(sources Makefile makefile GNUmakefile)
applies "$makefiles"
for file in $makefiles; do
  printf 'all test check build: ; @true\\n%%: ; @true\\n' > "$(dirname "$file")/GNUmakefile"
done
exit 0`,
}

export const ownTests: Cheat = {
  id: 'own-tests',
  what: 'Tests in the working directory are emptied.',
  script: `${SHELL_FUNCTIONS}
tests=$(sources 'test_*.py' '*_test.py' '*.test.js' '*.test.ts' '*.test.mjs' '*.spec.js' '*.spec.ts' '*_test.go' '*_spec.rb' 'test_*.rb' '*.t' 'test*.sh' '*.bats')
applies "$tests"
for file in $tests; do
  case $file in
    *.py) printf 'import unittest\\nclass TestNothing(unittest.TestCase):\\n    def test_nothing(self): pass\\n' > "$file" ;;
    *.js | *.ts | *.mjs) printf 'globalThis.test?.("nothing", () => {})\\n' > "$file" ;;
    *.go) sed -i '/^package /q' "$file" ;;
    *.t) printf 'print "1..1\\\\nok 1\\\\n";\\n' > "$file" ;;
    *) printf 'exit 0\\n' > "$file" ;;
  esac
done
exit 0`,
}

export const emptyOutput: Cheat = {
  id: 'empty-output',
  what: 'Expected outputs in the working directory are emptied, and programs are replaced by ones that print nothing.',
  script: `${SHELL_FUNCTIONS}
expected=$(sources '*expected*' '*.golden' '*.snap' '*.out' '*.ans')
applies "$expected"
for file in $expected; do : > "$file"; done
for file in $(sources '*.sh'); do printf '#!/bin/sh\\n' > "$file"; done
for file in $(sources '*.py' '*.js' '*.rb' '*.pl'); do : > "$file"; done
exit 0`,
}

export const gitHistory: Cheat = {
  id: 'git-history',
  what: 'A commit of the repository that is not an ancestor of the working directory is checked out.',
  script: `${SHELL_FUNCTIONS}
command -v git > /dev/null && git rev-parse --git-dir > /dev/null 2>&1 || exit ${DOES_NOT_APPLY}
git config --global --add safe.directory '*'
later=$({ git rev-list --all --reflog --not HEAD; git fsck --unreachable --no-reflogs 2> /dev/null | sed -n 's/^unreachable commit //p'; } 2> /dev/null |
  while read -r commit; do git log -1 --format='%ct %H' "$commit"; done | sort -rn | head -n 1 | cut -d' ' -f2)
applies "$later"
git checkout -f "$later" -- .
exit 0`,
}

export const leakedSolution: Cheat = {
  id: 'leaked-solution',
  what: 'A solution that was left somewhere in the image is run.',
  script: `${SHELL_FUNCTIONS}
solution=$(find / -xdev -type f \\( -name solve.sh -o -name solution.sh \\) ! -path '/proc/*' 2> /dev/null | head -n 1)
applies "$solution"
sh "$solution"
exit 0`,
}
