import { expect, test } from 'vitest'
import type { JsonObject } from './json.ts'
import { buildEventParser, type OutputRule } from './output-mapping.ts'

const always = { when: {}, where: {} }
const parse = (rule: Partial<OutputRule>, line: JsonObject) =>
  buildEventParser([{ ...always, ...rule } as OutputRule])(line)

test.each<[string, Partial<OutputRule>, JsonObject, object[]]>([
  ['a message', { tells: 'message', text: 'a.b' }, { a: { b: 'hello' } }, [{ kind: 'message', text: 'hello' }]],
  [
    'a line that does not match `when`',
    { when: { type: 'x' }, tells: 'message', text: 't' },
    { type: 'y', t: 'hello' },
    [],
  ],
  ['a number does not match its string', { when: { type: '1' }, tells: 'turn' }, { type: 1 }, []],
  ['a boolean condition', { when: { done: true }, tells: 'turn' }, { done: true }, [{ kind: 'turn' }]],
  ['a missing value', { tells: 'thought', text: 'a.b.c' }, { a: { b: null } }, []],
  [
    'a list of parts',
    { tells: 'thought', text: 'p' },
    { p: [{ text: 'a' }, 'b', 1] },
    [{ kind: 'thought', text: 'ab1' }],
  ],
  [
    'elements of a list, filtered by `where`',
    { each: 'm', where: { type: 'text' }, tells: 'message', text: 'v' },
    { m: [{ type: 'text', v: 'a' }, { type: 'other', v: 'b' }, 'c', null, { type: 'text', v: 'd' }] },
    [
      { kind: 'message', text: 'a' },
      { kind: 'message', text: 'd' },
    ],
  ],
  ['`each` on a value that is not a list', { each: 'm', tells: 'turn' }, { m: { length: 3 } }, []],
  [
    'a call with arguments in a JSON string',
    { tells: 'call', id: 'id', name: 'n', arguments: 'a' },
    { id: 7, n: 'bash', a: '{"command":"ls"}' },
    [{ kind: 'call', id: '7', name: 'bash', arguments: { command: 'ls' } }],
  ],
  [
    'a call with arguments in invalid JSON',
    { tells: 'call', id: 'id', name: 'n', arguments: 'a' },
    { id: '7', n: 'bash', a: '[1' },
    [{ kind: 'call', id: '7', name: 'bash', arguments: { text: '[1' } }],
  ],
  ['a call without a name', { tells: 'call', id: 'id', name: 'n' }, { id: '7' }, []],
  [
    'a result that is an object',
    { tells: 'result', id: 'id', text: 'r' },
    { id: '7', r: { code: 0 } },
    [{ kind: 'result', id: '7', text: '{"code":0}' }],
  ],
  ['an inherited property', { tells: 'message', text: 'constructor.name' }, {}, []],
  [
    'an own property called __proto__',
    { tells: 'message', text: '__proto__.x' },
    JSON.parse('{"__proto__":{"x":"own"}}'),
    [{ kind: 'message', text: 'own' }],
  ],
])('maps %s', (_, rule, line, events) => {
  expect(parse(rule, line)).toEqual(events)
})

test('applies rules in order and reads at most 1,000 elements of a list', () => {
  const rules: OutputRule[] = [
    { ...always, tells: 'turn' },
    { ...always, each: 'm', tells: 'message', text: 't' },
  ]
  const events = buildEventParser(rules)({ m: Array.from({ length: 5000 }, () => ({ t: 'x' })) })
  expect(events[0]).toEqual({ kind: 'turn' })
  expect(events).toHaveLength(1001)
})
