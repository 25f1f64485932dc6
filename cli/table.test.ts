import { Writable } from 'node:stream'
import { expect, test } from 'vitest'
import { printJson, type Shell } from './shell.ts'
import { alignColumns, fitColumns, formatTime, printTable } from './table.ts'

test('columns are as wide as their widest cell, and no line ends with spaces', () => {
  expect(
    alignColumns([
      ['ID', 'NAME', 'LAST'],
      ['1', 'a longer name', ''],
    ]),
  ).toEqual(['ID  NAME           LAST', '1   a longer name'])
})

test('a table fits the terminal: wide columns are shortened, the first is kept', () => {
  const id = '0198c0de-0000-7000-8000-000000000000'
  const rows = fitColumns(
    [
      ['ID', 'NAME', 'WHY'],
      [id, 'a name', 'x'.repeat(300)],
    ],
    80,
  )
  expect(alignColumns(rows).map((line) => line.length)).toEqual([49, 80])
  expect(rows[1]?.[0]).toBe(id)
  expect(rows[1]?.[2]).toMatch(/^x+…$/)
  expect(
    fitColumns(
      [
        ['A', 'B'],
        ['1', '2'],
      ],
      80,
    ),
  ).toEqual([
    ['A', 'B'],
    ['1', '2'],
  ])
  expect(
    fitColumns(
      [
        ['ID', 'NAME'],
        [id, 'n'.repeat(50)],
      ],
      10,
    )[1]?.[1],
  ).toHaveLength(12)
})

test('times are shown to the second', () => {
  expect(formatTime('2026-11-15T03:22:13.263Z', 'never')).toBe('2026-11-15T03:22:13Z')
  expect(formatTime(null, 'never')).toBe('never')
})

test('untrusted names cannot control the terminal', () => {
  const { shell, written } = recorded()
  printTable(shell, ['evil\u001b]0;title\u0007\u009b2J\nline'], [['NAME', (name) => name]])
  expect(written()).toBe('NAME\nevil�]0;title��2J�line\n')
})

test('JSON output cannot control the terminal and keeps its value', () => {
  const { shell, written } = recorded()
  printJson(shell, { name: '\u001b\u009b2J\u007f' })
  expect(written()).toMatch(/^[\x20-\x7e\n]+$/)
  expect(JSON.parse(written())).toEqual({ name: '\u001b\u009b2J\u007f' })
})

function recorded(): { shell: Shell; written: () => string } {
  let text = ''
  const output = new Writable({
    write(chunk, _, done) {
      text += String(chunk)
      done()
    },
  }) as NodeJS.WriteStream
  return { shell: { env: {}, input: () => process.stdin, output, errors: output }, written: () => text }
}
