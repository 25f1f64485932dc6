import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './files.ts'
import { EQUIVALENT_MUTANTS } from './mutation/equivalents.ts'
import { MUTATION_GROUPS } from './mutation/groups.ts'
import {
  classifyMutants,
  KILLED_MIN,
  mutationTable,
  percentKilled,
  sumCounts,
  type TestedMutant,
} from './mutation/report.ts'
import { runGroup } from './mutation/run-group.ts'

// npm run mutate: changes the decision files in small ways and counts the changes that no test notices.
// Tests only the files that are named; without names it also writes the table in docs/mutation.md.

const PAGE = join(ROOT, 'docs/mutation.md')
const PART = /(<!-- table: npm run mutate -->\n)[\s\S]*(<!-- end of table -->)/

const named = process.argv.slice(2)
const groups = MUTATION_GROUPS.map((group) => ({
  ...group,
  files: named.length === 0 ? group.files : group.files.filter((file) => named.includes(file)),
})).filter(({ files }) => files.length > 0)
if (groups.length === 0) throw new Error('No such file in scripts/mutation/groups.ts')

const mutants: TestedMutant[] = []
for (const group of groups) {
  const started = performance.now()
  const tested = await runGroup(group)
  mutants.push(...tested)
  const killed = tested.filter(({ isKilled }) => isKilled).length
  const seconds = Math.round((performance.now() - started) / 1000)
  console.log(`${group.name}: ${killed} of ${tested.length} mutants killed in ${seconds} s`)
}
const files = groups.flatMap((group) => group.files)
const { counts, survivors, stale } = classifyMutants(files, mutants, EQUIVALENT_MUTANTS)

for (const { file, line, code, becomes } of survivors)
  console.log(`survived: ${file}:${line}\n  - ${code}\n  + ${becomes}`)
for (const { file, code, becomes } of stale)
  console.log(`stale: ${file} has no surviving mutant that turns ${code} into ${becomes}`)

const table = mutationTable(groups, counts, EQUIVALENT_MUTANTS)
console.log(`\n${table}`)
if (named.length === 0) {
  const page = readFileSync(PAGE, 'utf8')
  writeFileSync(
    PAGE,
    page.replace(PART, (_, start, end) => `${start}\n${table}\n\n${end}`),
  )
}
const isKilled = groups.every((group) => percentKilled(sumCounts(group.files, counts)) >= KILLED_MIN)
process.exitCode = isKilled && stale.length === 0 ? 0 : 1
