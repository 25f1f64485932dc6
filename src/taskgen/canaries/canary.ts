import type { PullRequestText } from '../authoring/sanitise.ts'
import { renderInstruction } from '../lint/render-instruction.ts'
import type { ReviewInput } from '../review/review-prompt.ts'
import type { RubricReason } from '../review/rubric.ts'
import type { KnownTask } from './known-tasks.ts'

/** A text and its replacement. The text must occur exactly once. */
type TextReplacement = readonly [before: string, after: string]

/** Modification of a good task. */
export type TaskAlteration = {
  instruction?: readonly TextReplacement[]
  /** Paragraph that is appended to the expected behaviour. */
  adds?: string
  tests?: readonly TextReplacement[]
}

/** A good task with one defect that no lint rule detects, only a reviewer. */
export type Defect = TaskAlteration & { name: string; task: string; expected: RubricReason }

/** A good task with a harmless addition. */
export type CanaryControl = TaskAlteration & { name: string; task: string }

/**
 * Text of a pull request that must not mislead the author model. `never`: texts that must not occur in the instruction.
 */
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

/** Each text occurs in exactly one file, so all files are searched for it. */
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
