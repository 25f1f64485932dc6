import type { EquivalentMutant } from './equivalents.ts'
import type { MutationGroup } from './groups.ts'

/** Percentage of mutants that the tests of each group must notice. */
export const KILLED_PERCENT_MIN = 95

export type TestedMutant = {
  file: string
  /** Counted from 1. */
  line: number
  /** The source line on which the mutant begins. */
  lineText: string
  /** The original code, and the code that replaces it. */
  code: string
  replacement: string
  isKilled: boolean
}

export type MutantCounts = { mutants: number; killed: number; equivalent: number }

/**
 * Counts the mutants of each file and lists the survivors. An entry of `equivalents` is stale if its mutant was killed or
 * no longer exists.
 */
export function classifyMutants(
  files: readonly string[],
  mutants: readonly TestedMutant[],
  equivalents: readonly EquivalentMutant[],
): { counts: Map<string, MutantCounts>; survivors: TestedMutant[]; stale: EquivalentMutant[] } {
  const isSame = (mutant: TestedMutant, { file, lineText = '', code, replacement }: EquivalentMutant) =>
    mutant.file === file &&
    mutant.lineText.includes(lineText) &&
    mutant.code === code &&
    mutant.replacement === replacement
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

/** Returns the percentage of killed mutants among those that are not equivalent. */
export const percentKilled = ({ mutants, killed, equivalent }: MutantCounts): number =>
  mutants === equivalent ? 100 : (100 * killed) / (mutants - equivalent)

/** Returns two tables in Markdown: the counts of every file, and the equivalent mutants with their reasons. */
export function renderTables(
  groups: readonly MutationGroup[],
  counts: ReadonlyMap<string, MutantCounts>,
  equivalents: readonly EquivalentMutant[],
): string {
  const renderRow = (name: string, { mutants, killed, equivalent }: MutantCounts) =>
    `| ${name} | ${mutants} | ${killed} | ${equivalent} | ${mutants - killed - equivalent} | ${percentKilled({ mutants, killed, equivalent }).toFixed(1)} % |`
  const rows = groups.flatMap(({ name, files }) => [
    renderRow(`**${name}**`, sumCounts(files, counts)),
    ...files.map((file) => renderRow(`\`${file}\``, sumCounts([file], counts))),
  ])
  const equivalentRows = equivalents
    .filter(({ file }) => counts.has(file))
    .map(
      ({ file, code, replacement, reason }) =>
        `| \`${file}\` | ${formatCode(code)} | ${formatCode(replacement)} | ${reason} |`,
    )
  return [
    '| file | mutants | killed | equivalent | survived | killed of those that matter |',
    '|---|---|---|---|---|---|',
    ...rows,
    '',
    '| file | code | equivalent mutant | reason |',
    '|---|---|---|---|',
    ...equivalentRows,
  ].join('\n')
}

/** Formats code for a cell of a Markdown table. */
const formatCode = (code: string): string => `\`${code.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|')}\``
