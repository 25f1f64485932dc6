import { printable } from '../src/platform/terminal-text.ts'
import { print, type Shell, styled } from './shell.ts'

type TableColumn<Row> = readonly [heading: string, cell: (row: Row) => string]

const COLUMN_GAP = '  '

/** Prints a table. On a terminal, wide columns are shortened to its width; elsewhere nothing is left out. */
export function printTable<Row>(shell: Shell, rows: readonly Row[], columns: readonly TableColumn<Row>[]): void {
  const cells = rows.map((row) => columns.map(([, cell]) => printable(cell(row))))
  const width = shell.output.isTTY ? shell.output.columns : undefined
  const table = [columns.map(([heading]) => heading), ...cells]
  const [headings = '', ...lines] = alignColumns(width === undefined ? table : fitColumns(table, width))
  print(shell, styled(shell.output, 'bold', headings), ...lines)
}

const COLUMN_WIDTH_MIN = 12

/** Shortens the widest columns until a line fits. The first column is not shortened, because it identifies the row. */
export function fitColumns(rows: readonly (readonly string[])[], width: number): string[][] {
  const widths = measureWidths(rows)
  const gaps = COLUMN_GAP.length * (widths.length - 1)
  const lineWidth = (): number => widths.reduce((total, each) => total + each, 0) + gaps
  while (lineWidth() > width) {
    const widest = Math.max(...widths.slice(1))
    if (widest <= COLUMN_WIDTH_MIN) break
    widths[widths.indexOf(widest, 1)] = widest - 1
  }
  return rows.map((row) => row.map((cell, column) => shorten(cell, widths[column] ?? cell.length)))
}

const shorten = (cell: string, width: number): string => (cell.length <= width ? cell : `${cell.slice(0, width - 1)}…`)

const measureWidths = (rows: readonly (readonly string[])[]): number[] =>
  rows.reduce<number[]>((widest, row) => row.map((cell, column) => Math.max(cell.length, widest[column] ?? 0)), [])

/** Prints labels and values, one pair per line. */
export const printFacts = (shell: Shell, facts: readonly (readonly [name: string, value: string])[]): void =>
  print(shell, ...alignColumns(facts.map(([name, value]) => [name, printable(value)])))

/** Pads the cells of all rows, so that columns are aligned. Returns one line per row. */
export function alignColumns(rows: readonly (readonly string[])[]): string[] {
  const widths = measureWidths(rows)
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join(COLUMN_GAP)
      .trimEnd(),
  )
}

/** Formats a time in UTC, to the second, in sortable form. `fallback` is used if there is none. */
export const formatTime = (time: string | null, fallback: string): string =>
  time === null ? fallback : time.replace(/\.\d+Z$/, 'Z')

/** Formats a count with its noun: `1 file`, `2 files`. */
export const formatCount = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`
