import { expect, test } from 'vitest'
import type { TrialChange } from '../../../src/comparisons/shapes/schema.ts'
import { applyChanges, groupTasks, orderTasks, toCell } from './map-model.ts'

const MATRIX = {
  settings: ['a|x|low', 'b|x|low|terse@1'],
  attempts: 2,
  tasks: [
    { name: 'one', cells: 'ffqr' },
    { name: 'two', cells: 'pppp' },
    { name: 'three', cells: 'pfe-' },
    { name: 'four', cells: 'qqqq' },
  ],
}

test('a cell combines the attempts of one task and setting', () => {
  expect(toCell(MATRIX, 0, 0)).toEqual({ letters: 'ff', share: 0, state: 'failed' })
  expect(toCell(MATRIX, 0, 1).state).toBe('running')
  expect(toCell(MATRIX, 1, 1).state).toBe('passed')
  expect(toCell(MATRIX, 2, 0)).toEqual({ letters: 'pf', share: 0.5, state: 'mixed' })
  expect(toCell(MATRIX, 2, 1).state).toBe('errored')
  expect(toCell(MATRIX, 9, 9).state).toBe('none')
})

test('changes replace single letters; unknown tasks and settings are ignored', () => {
  const change = (over: Partial<TrialChange>): TrialChange => ({
    id: '00000000-0000-8000-8000-000000000000',
    task: 'one',
    settingId: 'b|x|low|terse@1',
    attempt: 2,
    state: 'passed',
    class: 'verified',
    reward: 1,
    ...over,
  })
  const changed = applyChanges(MATRIX, [change({}), change({ task: 'other' }), change({ settingId: 'c' })])
  expect(changed.tasks.map(({ cells }) => cells)).toEqual(['ffqp', 'pppp', 'pfe-', 'qqqq'])
})

test('tasks are ordered from solved by all to without result, in groups', () => {
  const ordered = orderTasks(MATRIX, 'difficulty', [0, 1])
  expect(ordered).toEqual([1, 2, 0, 3])
  expect(orderTasks(MATRIX, 'plan', [0, 1])).toEqual([0, 1, 2, 3])
  expect(groupTasks(MATRIX, ordered, [0, 1])).toEqual([
    { label: 'solved by all', from: 0, to: 1 },
    { label: 'by most', from: 1, to: 2 },
    { label: 'by none', from: 2, to: 3 },
    { label: 'no result', from: 3, to: 4 },
  ])
})

test('settings that are not counted do not change the difficulty of a task', () => {
  expect(orderTasks(MATRIX, 'difficulty', [1])).toEqual([1, 0, 2, 3])
})
