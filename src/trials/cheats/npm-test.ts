import { type Cheat, SHELL } from './cheat.ts'

export const npmTest: Cheat = {
  id: 'npm-test',
  what: 'The scripts of package.json and the settings of test programs are changed so that nothing is tested.',
  line: `${SHELL}
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
