import { Writable } from 'node:stream'
import { expect, test } from 'vitest'
import { printJson, type Shell } from './shell.ts'
import { aligned, moment, printTable } from './table.ts'

test('columns are as wide as their widest cell, and no line ends with spaces', () => {
  expect(
    aligned([
      ['ID', 'NAME', 'LAST'],
      ['1', 'a longer name', ''],
    ]),
  ).toEqual(['ID  NAME           LAST', '1   a longer name'])
})

test('times are to the second', () => {
  expect(moment('2026-11-15T03:22:13.263Z', 'never')).toBe('2026-11-15T03:22:13Z')
  expect(moment(null, 'never')).toBe('never')
})

test('a name that someone else chose cannot command the terminal', () => {
  const { shell, written } = recorded()
  printTable(shell, ['evil\u001b]0;title\u0007\u009b2J\nline'], [['NAME', (name) => name]])
  expect(written()).toBe('NAME\nevil�]0;title��2J�line\n')
})

test('nor in JSON, which stays the same value', () => {
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
