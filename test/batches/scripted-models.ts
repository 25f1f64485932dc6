import type { ScriptInput } from '../../samples/provider/script.ts'
import type { HiddenTests } from '../../src/grading/suite.ts'
import type { InstructionDraft } from '../../src/taskgen/lint/render-instruction.ts'
import type { SamplePull } from '../support/repositories/repository.ts'
import { readingOf, said, whenReading, whenWriting } from '../support/taskgen/scripted-answers.ts'

const MINUTES = { easy: 10, medium: 35, hard: 90 }
const ASSERTION = /^.*\b(?:assert|assert_eq!|assert!|expect|Fatal|Fatalf|Error|Errorf|raises)(?!\w).*$/m

/** Scripts an author that writes this draft and two reviewers that approve it with quotes. */
export function scriptFor(pull: SamplePull, draft: InstructionDraft, hidden: HiddenTests): ScriptInput {
  const assertion = hidden.files.map(({ content }) => ASSERTION.exec(content)?.[0]?.trim()).find(Boolean) ?? ''
  const support = draft.expected.slice(0, 40)
  const reading = readingOf({ assertion, support, minutes: MINUTES[pull.difficulty ?? 'medium'] })
  return { tasks: [whenWriting(said(draft), pull.title), whenReading(said(reading), null, draft.title)] }
}
