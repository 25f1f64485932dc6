import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './files.ts'
import { EQUIVALENT_MUTANTS } from './mutation/equivalents.ts'
import { MUTATION_GROUPS } from './mutation/groups.ts'
import {
  classifyMutants,
  KILLED_PERCENT_MIN,
  percentKilled,
  renderTables,
  sumCounts,
  type TestedMutant,
} from './mutation/report.ts'
import { runGroup } from './mutation/run-group.ts'

// `npm run mutate [file …]`: changes the decision files in small ways and counts the changes that no test notices.
// Tests all files and writes the table in docs/mutation.md if no file is named.

const PAGE = join(ROOT, 'docs/mutation.md')
const TABLE = /(<!-- table: npm run mutate -->\n)[\s\S]*(<!-- end of table -->)/

const chosenFiles = process.argv.slice(2)
const groups = MUTATION_GROUPS.map((group) => ({
  ...group,
  files: chosenFiles.length === 0 ? group.files : group.files.filter((file) => chosenFiles.includes(file)),
})).filter(({ files }) => files.length > 0)
if (groups.length === 0) throw new Error('None of these files is in scripts/mutation/groups.ts.')

const mutants: TestedMutant[] = []
for (const group of groups) {
  const started = performance.now()
  const groupMutants = await runGroup(group)
  mutants.push(...groupMutants)
  const killed = groupMutants.filter(({ isKilled }) => isKilled).length
  const seconds = Math.round((performance.now() - started) / 1000)
  console.log(`${group.name}: ${killed} of ${groupMutants.length} mutants killed in ${seconds} s`)
}
const files = groups.flatMap((group) => group.files)
const { counts, survivors, stale } = classifyMutants(files, mutants, EQUIVALENT_MUTANTS)

for (const { file, line, code, replacement } of survivors)
  console.log(`survived: ${file}:${line}\n  - ${code}\n  + ${replacement}`)
for (const { file, code, replacement } of stale)
  console.log(`stale: ${file} has no surviving mutant that turns ${code} into ${replacement}`)

const table = renderTables(groups, counts, EQUIVALENT_MUTANTS)
console.log(`\n${table}`)
if (chosenFiles.length === 0) {
  const page = readFileSync(PAGE, 'utf8')
  writeFileSync(
    PAGE,
    page.replace(TABLE, (_, start, end) => `${start}\n${table}\n\n${end}`),
  )
}
const isEnoughKilled = groups.every((group) => percentKilled(sumCounts(group.files, counts)) >= KILLED_PERCENT_MIN)
process.exitCode = isEnoughKilled && stale.length === 0 ? 0 : 1
