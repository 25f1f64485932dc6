import { expect, test } from 'vitest'
import { choosePicks } from './aggregate.ts'

const candidate = (id: string, passed: number, tasks = 20) => ({ id, passed, tasks })

test('picks contain the cheapest, the most accurate and the best value, one entry per setting', () => {
  const never = () => false
  const always = () => true
  expect(choosePicks([], never)).toEqual([])
  expect(choosePicks([candidate('a', 5, 19)], never)).toEqual([{ id: 'a', roles: ['cheapest', 'most-accurate'] }])
  const two = [candidate('a', 5), candidate('b', 9)]
  expect(choosePicks(two, always)).toEqual([
    { id: 'a', roles: ['cheapest'] },
    { id: 'b', roles: ['most-accurate', 'best-value'] },
  ])
  expect(choosePicks(two, never)).toEqual([
    { id: 'a', roles: ['cheapest', 'best-value'] },
    { id: 'b', roles: ['most-accurate'] },
  ])
  const three = [candidate('a', 5), candidate('b', 8), candidate('c', 9)]
  expect(choosePicks(three, (id) => id === 'a').map(({ id, roles }) => [id, ...roles])).toEqual([
    ['a', 'cheapest'],
    ['c', 'most-accurate'],
    ['b', 'best-value'],
  ])
  expect(choosePicks([candidate('a', 9), candidate('b', 9)], never)[0]).toEqual({
    id: 'a',
    roles: ['cheapest', 'most-accurate', 'best-value'],
  })
})

test('of two equally accurate settings the cheaper one is picked as most accurate', () => {
  const never = () => false
  expect(choosePicks([candidate('a', 9), candidate('b', 18, 40), candidate('c', 10, 20)], never)).toEqual([
    { id: 'a', roles: ['cheapest', 'best-value'] },
    { id: 'c', roles: ['most-accurate'] },
  ])
})

test('accuracies are compared exactly: 90 of 200 is more than 8 of 20 and less than 10 of 20', () => {
  const always = () => true
  const mostAccurate = (...all: ReturnType<typeof candidate>[]) =>
    choosePicks(all, always).find(({ roles }) => roles.includes('most-accurate'))?.id
  expect(mostAccurate(candidate('a', 8), candidate('b', 90, 200), candidate('c', 9, 40))).toBe('b')
  expect(mostAccurate(candidate('a', 90, 200), candidate('b', 10))).toBe('b')
  expect(mostAccurate(candidate('a', 9), candidate('b', 90, 200))).toBe('a')
})

test('the best value is the cheapest setting that is not significantly less accurate, from 20 tasks', () => {
  const asked: string[][] = []
  const frontier = [candidate('a', 5), candidate('b', 8), candidate('c', 9)]
  const found = choosePicks(frontier, (id, than) => {
    asked.push([id, than])
    return id === 'a'
  })
  expect(found.find(({ roles }) => roles.includes('best-value'))?.id).toBe('b')
  expect(asked).toEqual([
    ['a', 'c'],
    ['b', 'c'],
  ])
  const few = frontier.map((each) => ({ ...each, tasks: 19 }))
  expect(choosePicks(few, () => true).flatMap(({ roles }) => roles)).toEqual(['cheapest', 'most-accurate'])
})
