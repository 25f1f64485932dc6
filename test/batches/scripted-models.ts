import type { ScriptInput } from '../../samples/provider/script.ts'
import type { InstructionDraft } from '../../src/taskgen/lint/render-instruction.ts'
import type { SamplePull } from '../support/repositories/repository.ts'
import { buildApproval, said, whenReviewing, whenWriting } from '../support/taskgen/scripted-answers.ts'

const MINUTES = { easy: 10, medium: 35, hard: 90 }

/** Scripts an author that writes this draft and two reviewers that approve it with quotes. */
export function scriptFor(pull: SamplePull, draft: InstructionDraft): ScriptInput {
  const reading = buildApproval({
    sentence: draft.expected.slice(0, 40),
    minutes: MINUTES[pull.difficulty ?? 'medium'],
  })
  return { tasks: [whenWriting(said(draft), pull.title), whenReviewing(said(reading), null, draft.title)] }
}
