import type { PullRequestText } from '../authoring/sanitise.ts'
import { renderInstruction } from '../lint/render-instruction.ts'
import type { VerifyOrder } from '../review/review-prompt.ts'
import type { RubricReason } from '../review/rubric.ts'
import type { KnownTask } from './known-tasks.ts'

/** A text and what stands in its place. It must be there exactly once. */
type Swap = readonly [before: string, after: string]

/** What is done to a good task. */
export type Spoiling = {
  instruction?: readonly Swap[]
  /** A paragraph more, at the end of what is expected. */
  adds?: string
  tests?: readonly Swap[]
}

/** A good task with one defect that no rule sees: only who reads it does. */
export type Defect = Spoiling & { name: string; task: string; expected: RubricReason }

/** A good task with something more in it that is no defect. */
export type Control = Spoiling & { name: string; task: string }

/** Text of a pull request that an author must not fall for. `never`: what then stands in no instruction. */
export type Trap = { name: string; task: string; text: Partial<PullRequestText>; never: readonly string[] }

/** What a verifier gets to see. */
export function orderOf(task: KnownTask, { instruction = [], adds, tests = [] }: Spoiling = {}): VerifyOrder {
  const { draft, pinned, failToPass, source, base } = task
  const written = adds === undefined ? draft : { ...draft, expected: `${draft.expected}\n\n${adds}` }
  return {
    instruction: swapped(renderInstruction(written, pinned), instruction),
    hidden: hiddenOf(task, tests),
    ...{ failToPass, source, base },
  }
}

/** Texts of one file are looked for in all of them: each is there once. */
export function hiddenOf({ tests }: KnownTask, swaps: readonly Swap[] = []): VerifyOrder['hidden'] {
  const whole = swapped(tests.map(({ text }) => text).join(SEAM), swaps).split(SEAM)
  return {
    files: tests.map(({ path }, at) => ({ path, content: whole[at] ?? '', executable: false })),
    deleted: [],
  }
}

const SEAM = '\u0000'

function swapped(text: string, swaps: readonly Swap[]): string {
  return swaps.reduce((rest, [before, after]) => {
    const pieces = rest.split(before)
    if (pieces.length !== 2) throw new Error(`This is there ${pieces.length - 1} times: ${before}`)
    return pieces.join(after)
  }, text)
}
