import { expect, test } from 'vitest'
import { useCheatFolder } from '../../../test/support/trials/cheat-folder.ts'
import { changedMiddle, countedAnswers, swappedValues, wideAnswers } from './wrong-answers.ts'

const { read, remove, solveWith } = useCheatFolder()

test('replace numbers by very small and very large ones in turn', () => {
  const script = `echo '{"p95": [4.1, 6.3], "low": -3, "t": "5"}' > out.json; printf 'a1,b\\n-2.5,7\\n' > out.csv; echo '4.1 6.3' > out.txt`
  expect(solveWith(wideAnswers, script, ['out.csv', 'out.json', 'out.txt'])).toBe(0)
  const [least, most] = [-999999999, 999999999]
  expect(JSON.parse(read('out.json'))).toEqual({ p95: [least, most], low: least, t: '1' })
  expect([read('out.csv'), read('out.txt')]).toEqual([`a1,b\n${least},${most}`, `${least} ${most}`])
})

test('count the values of each key and column', () => {
  const script = `echo '[{"id": 70, "n": "b c"}, {"id": 81, "n": "d"}]' > out.json; printf 'k,v\\na,5\\nb,9\\n' > out.csv; printf '31\\n44\\n' > out.txt`
  expect(solveWith(countedAnswers, script, ['out.csv', 'out.json', 'out.txt'])).toBe(0)
  expect(JSON.parse(read('out.json'))).toEqual([
    { id: 1, n: 'x001' },
    { id: 2, n: 'x002' },
  ])
  expect([read('out.csv'), read('out.txt')]).toEqual(['k,v\nx001,1\nx002,2', '1\n2'])
})

test('swap the texts of keys, and change the middle of tables', () => {
  expect(solveWith(swappedValues, `echo '{"a": "x y", "b": "z"}' > out.json`, ['out.json'])).toBe(0)
  expect(JSON.parse(read('out.json'))).toEqual({ a: 'z', b: 'x y' })
  remove('out.json')
  for (const text of ['[{"a": "x"}, {"a": "z"}]', '{"a": "x", "b": "z", "n": 3}', '{"a": "x"}'])
    expect(solveWith(swappedValues, `echo '${text}' > out.json`, ['out.json'])).toBe(77)
  expect(
    solveWith(wideAnswers, `echo '{"a": "x", "ok": true}' > out.json; echo red > out.txt`, ['out.json', 'out.txt']),
  ).toBe(77)
  expect(solveWith(changedMiddle, `printf 'k,v\\na,5\\nb,9\\nc,7\\n' > out.csv`, ['out.csv'])).toBe(0)
  expect(read('out.csv')).toBe('k,v\na,5\nx,1\nc,7')
  for (const cheat of [wideAnswers, countedAnswers])
    expect(solveWith(cheat, `echo '{"ok": true, "a": []}' > out.json`, ['out.json'])).toBe(77)
})
