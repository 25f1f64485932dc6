import { expect, test } from 'vitest'
import { type AdmissionFacts, decideAdmission, explainCutOff, explainPause } from './admission.ts'

const measured = { running: 0, expectedMicros: 100, isMeasured: true }
const guessed = { running: 0, expectedMicros: 5000, isMeasured: false }

const facts = (changes: Partial<AdmissionFacts> = {}): AdmissionFacts => ({
  budgetMicros: 1000,
  countedMicros: 0,
  liveMicros: 0,
  settings: [measured],
  setting: 0,
  floorMicros: 10,
  ...changes,
})

test.each<[string, Partial<AdmissionFacts>, string]>([
  ['its cost fits', {}, 'start'],
  ['its cost just fits', { countedMicros: 900 }, 'start'],
  ['its cost does not fit', { countedMicros: 901 }, 'pause'],
  ['running trials are expected to need the rest', { settings: [{ ...measured, running: 10 }] }, 'wait'],
  ['running trials leave enough', { settings: [{ ...measured, running: 9 }] }, 'start'],
  ['running trials have reserved the rest', { liveMicros: 950, settings: [{ ...measured, running: 1 }] }, 'wait'],
  ['trials of another setting run', { settings: [measured, { ...measured, running: 10 }] }, 'wait'],
  ['its cost is a guess that does not fit', { settings: [guessed] }, 'start'],
  ['its cost is a guess, and another trial measures it', { settings: [{ ...guessed, running: 1 }] }, 'wait'],
  ['its cost is a guess, and not one call fits', { settings: [guessed], countedMicros: 991 }, 'pause'],
  ['the budget is a millionth of a dollar', { settings: [guessed], budgetMicros: 1 }, 'pause'],
  ['it is free', { settings: [{ ...measured, expectedMicros: 0 }], countedMicros: 999 }, 'start'],
  ['it is free, and nothing is left', { settings: [{ ...measured, expectedMicros: 0 }], countedMicros: 1000 }, 'pause'],
  ['there is no budget at all', { budgetMicros: 0, settings: [{ ...measured, expectedMicros: 0 }] }, 'pause'],
])('a trial where %s', (_, changes, expected) => {
  expect(decideAdmission(facts(changes))).toBe(expected)
})

test('the pause reason contains the spend and the expected cost of the next trial', () => {
  expect(explainPause(facts({ budgetMicros: 10_000, countedMicros: 7500, settings: [guessed] }))).toBe(
    'The budget of $0.01 does not cover another trial: $0.0075 is spent, and the next trial is expected to cost $0.005. Resume with a larger budget.',
  )
  expect(explainPause(facts({ budgetMicros: 0 }))).toBe('The budget of $0 is used up. Resume with a larger budget.')
  expect(explainCutOff({ budgetMicros: 10_000, spentMicros: 1234 })).toContain('not scored, and the $0.001234')
})
