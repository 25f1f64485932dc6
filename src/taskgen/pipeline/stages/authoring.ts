import { writeInstruction } from '../../authoring/author.ts'
import { findPinnedSymbols } from '../../authoring/pin-symbols.ts'
import { AUTHOR_LIMITS } from '../../models/stage-model.ts'
import { done, reject } from '../../stage-result.ts'
import type { Stage } from '../stage.ts'
import { loadLintFacts, readChange } from './candidate-inputs.ts'
import { parseExecution, toJson } from './outputs.ts'

/** Has the author model write the instruction. The names that it must expose are determined by code. */
export const authoringStage: Stage = {
  version: 2,
  needs: ['author'],
  cacheInputs: ({
    candidate: { base, head, title, body, issues },
    generation: { authorModel, reasoning },
    outputs,
  }) => [base, head, title, body, issues, authorModel, reasoning, outputs.execution ?? null],
  async run(state, context, signal) {
    const { candidate } = state
    const { lists, messages, failsByAssertion } = parseExecution(state)
    const landing = await readChange(state, context, signal)
    const { place } = await context.repository()
    const pinned = await findPinnedSymbols({ place, commit: candidate.base }, landing, signal)
    if (!failsByAssertion && pinned.length === 0)
      return reject('error_only_f2p', 'Its tests fail because something is not there, and nothing says what.')
    const told = { landing, pinned, failToPass: lists.failToPass }
    const facts = await loadLintFacts(state, context, told, signal)
    await using model = await context.model('author', AUTHOR_LIMITS)
    const written = await writeInstruction(model, { text: candidate, messages, facts }, signal)
    if (written.kind !== 'done') return written
    const { draft, markdown, specSource, warnings, rounds, bill } = written.value
    return done({
      made: toJson({ title: draft.title, markdown, pinned, author: model.name }),
      evidence: toJson({ specSource, rounds, bill, warnings, pinned }),
      concerns: warnings.map(({ detail, excerpt }) => `${detail} ${excerpt}`.trim()),
      title: draft.title,
    })
  },
}
