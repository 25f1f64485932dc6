import { expect, test } from 'vitest'
import type { JsonObject } from './json.ts'
import { momentsBy, type Rule } from './output-mapping.ts'

const always = { when: {}, where: {} }
const said = (rule: Partial<Rule>, line: JsonObject) => momentsBy([{ ...always, ...rule } as Rule])(line)

test.each<[string, Partial<Rule>, JsonObject, object[]]>([
  ['a message', { tells: 'message', text: 'a.b' }, { a: { b: 'hello' } }, [{ kind: 'message', text: 'hello' }]],
  ['of an event only', { when: { type: 'x' }, tells: 'message', text: 't' }, { type: 'y', t: 'hello' }, []],
  ['a number is no text of it', { when: { type: '1' }, tells: 'turn' }, { type: 1 }, []],
  ['truth', { when: { done: true }, tells: 'turn' }, { done: true }, [{ kind: 'turn' }]],
  ['nothing', { tells: 'thought', text: 'a.b.c' }, { a: { b: null } }, []],
  ['parts', { tells: 'thought', text: 'p' }, { p: [{ text: 'a' }, 'b', 1] }, [{ kind: 'thought', text: 'ab1' }]],
  [
    'members',
    { each: 'm', where: { type: 'text' }, tells: 'message', text: 'v' },
    { m: [{ type: 'text', v: 'a' }, { type: 'other', v: 'b' }, 'c', null, { type: 'text', v: 'd' }] },
    [
      { kind: 'message', text: 'a' },
      { kind: 'message', text: 'd' },
    ],
  ],
  ['no list', { each: 'm', tells: 'turn' }, { m: { length: 3 } }, []],
  [
    'a call whose arguments are a text',
    { tells: 'call', id: 'id', name: 'n', arguments: 'a' },
    { id: 7, n: 'bash', a: '{"command":"ls"}' },
    [{ kind: 'call', id: '7', name: 'bash', arguments: { command: 'ls' } }],
  ],
  [
    'a call whose arguments are none',
    { tells: 'call', id: 'id', name: 'n', arguments: 'a' },
    { id: '7', n: 'bash', a: '[1' },
    [{ kind: 'call', id: '7', name: 'bash', arguments: { text: '[1' } }],
  ],
  ['a call of nothing', { tells: 'call', id: 'id', name: 'n' }, { id: '7' }, []],
  [
    'a result that is an object',
    { tells: 'result', id: 'id', text: 'r' },
    { id: '7', r: { code: 0 } },
    [{ kind: 'result', id: '7', text: '{"code":0}' }],
  ],
  ['what every object has', { tells: 'message', text: 'constructor.name' }, {}, []],
  [
    'a prototype',
    { tells: 'message', text: '__proto__.x' },
    JSON.parse('{"__proto__":{"x":"own"}}'),
    [{ kind: 'message', text: 'own' }],
  ],
])('%s', (_, rule, line, moments) => {
  expect(said(rule, line)).toEqual(moments)
})

test('rules are told in their order, and a list without end comes to one', () => {
  const rules: Rule[] = [
    { ...always, tells: 'turn' },
    { ...always, each: 'm', tells: 'message', text: 't' },
  ]
  const moments = momentsBy(rules)({ m: Array.from({ length: 5000 }, () => ({ t: 'x' })) })
  expect(moments[0]).toEqual({ kind: 'turn' })
  expect(moments).toHaveLength(1001)
})
