import { expect, test } from 'vitest'
import { useCheatFolder } from '../../../test/support/trials/cheat-folder.ts'
import { cheats } from './cheats.ts'
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

test('leave no right truth value, escape or exponent in answers', () => {
  const script = String.raw`printf '%s' '{"n": 5, "ok": true, "no": [false], "t": "a\nB\u00e9 true"}' > out.json; echo 1e5 > out.txt`
  expect(solveWith(wideAnswers, script, ['out.json', 'out.txt'])).toBe(0)
  expect(JSON.parse(read('out.json'))).toEqual({ n: -999999999, ok: false, no: [true], t: 'x X  xxxx' })
  expect(read('out.txt')).toBe('-999999999')
  expect(solveWith(countedAnswers, script, ['out.json', 'out.txt'])).toBe(0)
  expect(JSON.parse(read('out.json'))).toEqual({ n: 1, ok: false, no: [true], t: 'x001' })
})

test('do not count right answers, and do not apply beside an answer that stays right', () => {
  for (const [file, answer] of [
    ['out.json', '[{"n": 1.0, "t": "x001"}, {"n": 2}]'],
    ['out.csv', 'id\n1\n2'],
    ['out.txt', 'total: 1'],
  ] as const) {
    const script = `printf '${answer.replaceAll('\n', '\\n')}\\n' > ${file}; echo 7 > other.txt`
    expect({ file, status: solveWith(countedAnswers, script, [file]) }).toEqual({ file, status: 77 })
    expect({ file, status: solveWith(countedAnswers, script, [file, 'other.txt']) }).toEqual({ file, status: 77 })
  }
  expect(solveWith(wideAnswers, 'echo red > out.txt; echo 7 > b.txt', ['b.txt', 'out.txt'])).toBe(77)
})

test('do not apply to answers that are too large to renumber', () => {
  for (const cheat of [wideAnswers, countedAnswers])
    expect(solveWith(cheat, `seq 300000 | paste -sd' ' > out.txt`, ['out.txt'])).toBe(77)
})

test('name no parameter in awk like a function, which gawk refuses', () => {
  for (const { id, script } of cheats) {
    const functions = [...script.matchAll(/function (\w+)\(([^)]*)\)/g)]
    const names = new Set(functions.map(([, name]) => name))
    const parameters = functions.flatMap(([, , list = '']) => list.split(/, */))
    expect({ id, parameters: parameters.filter((name) => names.has(name)) }).toEqual({ id, parameters: [] })
  }
})

test('swap the texts of keys, and change the middle of tables', () => {
  expect(solveWith(swappedValues, `echo '{"a": "x y", "b": "z"}' > out.json`, ['out.json'])).toBe(0)
  expect(JSON.parse(read('out.json'))).toEqual({ a: 'z', b: 'x y' })
  const withTabs = String.raw`printf '{\n"a":\t"x",\r\n"b"\t:\n"z"}\n' > out.json`
  expect(solveWith(swappedValues, withTabs, ['out.json'])).toBe(0)
  expect(JSON.parse(read('out.json'))).toEqual({ a: 'z', b: 'x' })
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
