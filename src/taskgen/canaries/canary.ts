import type { PullRequestText } from '../authoring/sanitise.ts'
import { renderInstruction } from '../lint/render-instruction.ts'
import type { ReviewInput } from '../review/review-prompt.ts'
import type { RubricReason } from '../review/rubric.ts'
import type { KnownTask } from './known-tasks.ts'

/** A text and what stands in its place. It must be there exactly once. */
type TextReplacement = readonly [before: string, after: string]

/** Modification of a good task. */
export type TaskAlteration = {
  instruction?: readonly TextReplacement[]
  /** A paragraph more, at the end of what is expected. */
  adds?: string
  tests?: readonly TextReplacement[]
}

/** A good task with one defect that no rule sees: only who reads it does. */
export type Defect = TaskAlteration & { name: string; task: string; expected: RubricReason }

/** A good task with something more in it that is no defect. */
export type CanaryControl = TaskAlteration & { name: string; task: string }

/** Text of a pull request that an author must not fall for. `never`: what then stands in no instruction. */
export type Trap = { name: string; task: string; text: Partial<PullRequestText>; never: readonly string[] }

/** Builds the input of the reviewer model. */
export function buildReviewInput(
  task: KnownTask,
  { instruction = [], adds, tests = [] }: TaskAlteration = {},
): ReviewInput {
  const { draft, pinned, failToPass, source, base } = task
  const written = adds === undefined ? draft : { ...draft, expected: `${draft.expected}\n\n${adds}` }
  return {
    instruction: replaceAllOnce(renderInstruction(written, pinned), instruction),
    hidden: buildHiddenTests(task, tests),
    failToPass,
    source,
    base,
  }
}

/** Texts of one file are looked for in all of them: each is there once. */
export function buildHiddenTests({ tests }: KnownTask, swaps: readonly TextReplacement[] = []): ReviewInput['hidden'] {
  const whole = replaceAllOnce(tests.map(({ text }) => text).join(SEPARATOR), swaps).split(SEPARATOR)
  return {
    files: tests.map(({ path }, at) => ({ path, content: whole[at] ?? '', executable: false })),
    deleted: [],
  }
}

const SEPARATOR = '\u0000'

function replaceAllOnce(text: string, swaps: readonly TextReplacement[]): string {
  return swaps.reduce((rest, [before, after]) => {
    const pieces = rest.split(before)
    if (pieces.length !== 2) throw new Error(`This is there ${pieces.length - 1} times: ${before}`)
    return pieces.join(after)
  }, text)
}
