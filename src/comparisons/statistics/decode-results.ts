import { z } from 'zod'
import { type ComparisonStatistics, computeStatistics } from '../../statistics/comparison-statistics.ts'
import type { SettingResults } from '../../statistics/pairs.ts'

/** Results of one setting, column by column as JSON text. */
type EncodedResults = {
  setting: number
  tasks: string
  trials: string
  passes: string
  passed: string
  micros: string
}

export type EncodedComparison = { settings: number; tasks: number; rows: readonly EncodedResults[] }

/** Computes the statistics of a comparison from its rows. */
export const computeEncoded = (input: EncodedComparison): ComparisonStatistics =>
  computeStatistics(decodeResults(input))

/** Decodes rows into one element per setting and task. Settings without a row have no results. */
export function decodeResults({ settings, tasks, rows }: EncodedComparison): SettingResults[] {
  const all = Array.from({ length: settings }, () => noResults(tasks))
  for (const row of rows) {
    const results = all[row.setting]
    if (!results) continue
    const columns = [row.trials, row.passes, row.passed, row.micros].map(parseNumbers)
    for (const [index, task] of parseNumbers(row.tasks).entries()) {
      results.trials[task] = columns[0]?.[index] ?? 0
      results.passes[task] = columns[1]?.[index] ?? 0
      results.passed[task] = columns[2]?.[index] ?? 0
      results.micros[task] = columns[3]?.[index] ?? Number.NaN
    }
  }
  return all
}

const noResults = (tasks: number): SettingResults => ({
  trials: new Float64Array(tasks),
  passes: new Float64Array(tasks),
  passed: new Float64Array(tasks),
  micros: new Float64Array(tasks).fill(Number.NaN),
})

// The database built the text from numbers. Validating every element would be slow.
const Numbers = z.custom<(number | null)[]>(Array.isArray)

const parseNumbers = (text: string): number[] => Numbers.parse(JSON.parse(text)).map((value) => value ?? Number.NaN)
