import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createLog } from './log.ts'
import { escapeJson, printable } from './terminal-text.ts'

const HOSTILE = [
  '\u001b[31mred',
  '\u001b]0;title\u0007',
  '\u001b]8;;https://evil.example\u001b\\link',
  '\u009b2J',
  '\u0085next line',
  '\r\nassay ready http://evil.example',
  'a\bb\u007f',
  'safe\u202etxt.exe',
  '\u2066isolate\u2069',
  'left\u200eright\u061c',
  'line\u2028para\u2029',
  'nul\0',
  '\ud800',
  'tag\u{e0041}',
  'zero\u200bwidth',
  'non\u200djoined',
  'soft\u00adhyphen',
  'word\u2060joiner',
  'filler\u3164',
]
const COMMANDS = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\u{e0000}-\u{e007f}]/u

test.each(HOSTILE)('%j has no effect on a terminal, and its text stays readable', (text) => {
  expect(printable(text)).not.toMatch(COMMANDS)
  expect(printable(`before ${text} after`)).toMatch(/^before .*�.* after$/)
})

test('leaves ordinary text of any language unchanged', () => {
  for (const text of ['Grüße, 世界', 'שלום', 'نص عربي', '👩🏽‍💻 👩‍👩‍👧 ❤️ naïve café', 'می\u200cخواهم', 'a\u0301'])
    expect(printable(text)).toBe(text)
})

test('escaped JSON has no effect on a terminal and the same value', () => {
  const property = fc.property(fc.anything({ maxDepth: 2 }), fc.constantFrom(...HOSTILE), (value, hostile) => {
    const json = JSON.stringify({ [hostile]: [value, hostile, `${hostile}${hostile}`] }, null, 2)
    expect(escapeJson(json).replaceAll('\n', '')).not.toMatch(COMMANDS)
    expect(JSON.parse(escapeJson(json))).toEqual(JSON.parse(json))
  })
  fc.assert(property, { numRuns: 300 })
})

test('log lines have no effect on a terminal, whatever is logged', () => {
  for (const hostile of HOSTILE) {
    const lines: string[] = []
    createLog('info', (line) => lines.push(line)).warn({ name: hostile, error: new Error(hostile) }, hostile)
    expect(lines).toHaveLength(1)
    expect(lines[0]?.replace(/\n$/, '')).not.toMatch(COMMANDS)
    if (hostile.isWellFormed()) expect(JSON.parse(lines[0] ?? '').name).toBe(hostile)
  }
})
