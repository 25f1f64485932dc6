import { printable } from '../src/platform/terminal-text.ts'
import { print, type Shell, styled } from './shell.ts'

type TableColumn<Row> = readonly [heading: string, cell: (row: Row) => string]

const GAP = '  '

export function printTable<Row>(shell: Shell, rows: readonly Row[], columns: readonly TableColumn<Row>[]): void {
  const cells = rows.map((row) => columns.map(([, cell]) => printable(cell(row))))
  const [headings = '', ...lines] = aligned([columns.map(([heading]) => heading), ...cells])
  print(shell, styled(shell.output, 'bold', headings), ...lines)
}

/** Prints one object as a list of labels and values. */
export const printFacts = (shell: Shell, facts: readonly (readonly [name: string, value: string])[]): void =>
  print(shell, ...aligned(facts.map(([name, value]) => [name, printable(value)])))

export function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = rows.reduce<number[]>(
    (widest, row) => row.map((cell, column) => Math.max(cell.length, widest[column] ?? 0)),
    [],
  )
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join(GAP)
      .trimEnd(),
  )
}

/** Formats a time in UTC, to the second, in sortable form. */
export const moment = (time: string | null, otherwise: string): string =>
  time === null ? otherwise : time.replace(/\.\d+Z$/, 'Z')

/** Formats a count with its noun: `1 file`, `2 files`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`
