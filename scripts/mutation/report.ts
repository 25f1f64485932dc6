import type { EquivalentMutant } from './equivalents.ts'
import type { MutationGroup } from './groups.ts'

/** Percentage of mutants that the tests of each group must notice. */
export const KILLED_MIN = 95

export type TestedMutant = {
  file: string
  /** Counted from 1. */
  line: number
  /** The source line on which the mutant begins. */
  text: string
  code: string
  becomes: string
  isKilled: boolean
}

export type MutantCounts = { mutants: number; killed: number; equivalent: number }

/** Counts the mutants of each file. An equivalent mutant that was killed, or does not exist, is stale. */
export function classifyMutants(
  files: readonly string[],
  mutants: readonly TestedMutant[],
  equivalents: readonly EquivalentMutant[],
): { counts: Map<string, MutantCounts>; survivors: TestedMutant[]; stale: EquivalentMutant[] } {
  const isSame = (mutant: TestedMutant, { file, line = '', code, becomes }: EquivalentMutant) =>
    mutant.file === file && mutant.text.includes(line) && mutant.code === code && mutant.becomes === becomes
  const survivors = mutants.filter(({ isKilled }) => !isKilled)
  const isEquivalent = (mutant: TestedMutant) => equivalents.some((each) => isSame(mutant, each))
  const counts = files.map((file): [string, MutantCounts] => {
    const fileMutants = mutants.filter((mutant) => mutant.file === file)
    const killed = fileMutants.filter(({ isKilled }) => isKilled).length
    return [
      file,
      {
        mutants: fileMutants.length,
        killed,
        equivalent: survivors.filter((mutant) => mutant.file === file && isEquivalent(mutant)).length,
      },
    ]
  })
  return {
    counts: new Map(counts),
    survivors: survivors.filter((mutant) => !isEquivalent(mutant)),
    stale: equivalents.filter((each) => files.includes(each.file) && !survivors.some((mutant) => isSame(mutant, each))),
  }
}

export function sumCounts(files: readonly string[], counts: ReadonlyMap<string, MutantCounts>): MutantCounts {
  const sum = { mutants: 0, killed: 0, equivalent: 0 }
  for (const file of files) {
    const { mutants, killed, equivalent } = counts.get(file) ?? { mutants: 0, killed: 0, equivalent: 0 }
    sum.mutants += mutants
    sum.killed += killed
    sum.equivalent += equivalent
  }
  return sum
}

/** Percentage of the mutants that change what the program does. */
export const percentKilled = ({ mutants, killed, equivalent }: MutantCounts): number =>
  mutants === equivalent ? 100 : (100 * killed) / (mutants - equivalent)

/** Returns two tables in Markdown: the counts of every file, and the equivalent mutants with their reasons. */
export function mutationTable(
  groups: readonly MutationGroup[],
  counts: ReadonlyMap<string, MutantCounts>,
  equivalents: readonly EquivalentMutant[],
): string {
  const row = (name: string, counts: MutantCounts) =>
    `| ${name} | ${counts.mutants} | ${counts.killed} | ${counts.equivalent} | ${counts.mutants - counts.killed - counts.equivalent} | ${percentKilled(counts).toFixed(1)} % |`
  const rows = groups.flatMap(({ name, files }) => [
    row(`**${name}**`, sumCounts(files, counts)),
    ...files.map((file) => row(`\`${file}\``, sumCounts([file], counts))),
  ])
  const listed = equivalents
    .filter(({ file }) => counts.has(file))
    .map(({ file, code, becomes, reason }) => `| \`${file}\` | ${cell(code)} | ${cell(becomes)} | ${reason} |`)
  return [
    '| file | mutants | killed | equivalent | survived | killed of those that matter |',
    '|---|---|---|---|---|---|',
    ...rows,
    '',
    '| file | code | equivalent mutant | reason |',
    '|---|---|---|---|',
    ...listed,
  ].join('\n')
}

const cell = (code: string): string => `\`${code.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|')}\``
