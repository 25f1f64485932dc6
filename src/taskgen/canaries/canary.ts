import { z } from 'zod'
import type { PullRequestText } from '../authoring/sanitise.ts'
import { renderInstruction } from '../lint/render-instruction.ts'
import type { ReviewInput, RubricReason } from '../review/model-review.ts'
import tasks from './tasks.gen.json' with { type: 'json' }

/** A text and its replacement. The text must occur exactly once. */
type TextReplacement = readonly [before: string, after: string]

/** Modification of a good task. */
type TaskAlteration = {
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
 * Text of a pull request that must not mislead the author model. No text in `forbidden` may occur in the instruction.
 */
export type Trap = { name: string; task: string; text: Partial<PullRequestText>; forbidden: readonly string[] }

/** Builds the input of the reviewer model. */
export function buildReviewInput(
  task: KnownTask,
  { instruction = [], adds, tests = [] }: TaskAlteration = {},
): ReviewInput {
  const { draft, exposed, failToPass, source, base } = task
  const written = adds === undefined ? draft : { ...draft, expected: `${draft.expected}\n\n${adds}` }
  return {
    instruction: replaceEachOnce(renderInstruction(written, exposed), instruction),
    hidden: buildHiddenTests(task, tests),
    failToPass,
    source,
    base,
  }
}

/** Builds the test files with replacements. A replacement does not name its file, so all files are searched together. */
export function buildHiddenTests(
  { tests }: KnownTask,
  replacements: readonly TextReplacement[] = [],
): ReviewInput['hidden'] {
  const contents = replaceEachOnce(tests.map(({ text }) => text).join(SEPARATOR), replacements).split(SEPARATOR)
  return {
    files: tests.map(({ path }, index) => ({ path, content: contents[index] ?? '', executable: false })),
    deleted: [],
  }
}

const SEPARATOR = '\u0000'

function replaceEachOnce(text: string, replacements: readonly TextReplacement[]): string {
  return replacements.reduce((rest, [before, after]) => {
    const pieces = rest.split(before)
    if (pieces.length !== 2)
      throw new Error(`The text to replace must occur once, but occurs ${pieces.length - 1} times: ${before}`)
    return pieces.join(after)
  }, text)
}

const TextFile = z.object({ path: z.string(), text: z.string() })

/**
 * A good task from a known pull request: everything that the author and verifier models see, and an instruction that a
 * careful author wrote.
 */
const KnownTask = z.object({
  name: z.string(),
  pullRequest: z.object({ title: z.string(), body: z.string() }),
  draft: z.object({
    title: z.string(),
    problem: z.string(),
    expected: z.string(),
    actual: z.string().nullable(),
    reproduction: z.string().nullable(),
    constraints: z.array(z.string()),
  }),
  exposed: z.array(
    z.object({ kind: z.enum(['name', 'literal', 'path']), text: z.string(), signature: z.string().nullable() }),
  ),
  failToPass: z.array(z.string()),
  /** The change, as a patch of git. */
  source: z.string(),
  tests: z.array(TextFile),
  /** Base version of the files that the change touches. */
  base: z.array(TextFile),
})
export type KnownTask = z.infer<typeof KnownTask>

export const knownTasks: readonly KnownTask[] = z.array(KnownTask).parse(tasks)
