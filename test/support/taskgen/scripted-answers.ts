import type { ScriptInput } from '../../../samples/provider/script.ts'
import type { InstructionDraft } from '../../../src/taskgen/lint/render-instruction.ts'
import type { ModelReview } from '../../../src/taskgen/review/model-review.ts'

type ScriptedTask = NonNullable<ScriptInput['tasks']>[number]
type ScriptedTurn = ScriptedTask['turns'][number]

/** A valid draft for no particular project. */
export const DRAFT: InstructionDraft = {
  title: 'Durations can be given in words',
  problem:
    'Users write how long something takes as a text such as "1h 30m", and the library has no way to read it. They have to turn it into seconds by hand before they can start a timer, which is where most of the reported mistakes come from.',
  expected:
    'There is a function that takes such a text and returns the number of seconds as a whole number. Hours, minutes and seconds are known, in any order, with or without blanks between them. A unit that is not known is an error that names it.',
  actual: null,
  reproduction: null,
  constraints: ['What can be done with timers today must still work.'],
}

/** More than any sample has. A review may also name assertions that do not exist. */
const ASSERTIONS = 100

/** A review without objections. The sentence must occur in the instruction; it supports all assertions. */
export const buildApproval = ({ sentence, minutes = 20 }: { sentence: string; minutes?: number }): ModelReview => ({
  items: Array.from({ length: 9 }, (_, at) => ({ item: at + 1, answer: 'yes', quotes: [], why: 'It is so.' })),
  assertions: Array.from({ length: ASSERTIONS }, (_, at) => ({ number: at + 1, sentence, base: null })),
  alternative: 'A regular expression that finds each number with its unit, and a sum over the table of units.',
  minutes,
})

export const said = (value: unknown): ScriptedTurn => ({
  say: typeof value === 'string' ? value : JSON.stringify(value),
})

/** Scripts the answer of the author model to prompts that contain these texts. */
export const whenWriting = (turn: ScriptedTurn, ...about: string[]): ScriptedTask => ({
  match: ['write the statement', ...about],
  turns: [turn],
})

/** Scripts the answer of one reviewer, or of all reviewers. */
export const whenReviewing = (turn: ScriptedTurn, reader: 1 | 2 | 3 | null, ...about: string[]): ScriptedTask => ({
  match: [`check the task, reader ${reader ?? ''}`, ...about],
  turns: [turn],
})

/** Scripts the answer to a repair request. Must precede the other tasks in a script. */
export const whenRepairing = (turn: ScriptedTurn, ...about: string[]): ScriptedTask => ({
  match: ['This answer cannot be used', ...about],
  turns: [turn],
})

/** Scripts a verifier that knows of no wrong solution that passes, and finds nothing wrong with survivors. */
export const NO_WRONG_SOLUTION: ScriptedTask = {
  match: 'find a wrong solution that passes',
  turns: [
    said({
      survivors: Array.from({ length: 20 }, (_, at) => ({ number: at + 1, sentence: null, why: 'It is not needed.' })),
      attempt: null,
    }),
  ],
  endless: true,
}
