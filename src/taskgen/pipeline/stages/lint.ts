import { isBlocking } from '../../lint/finding.ts'
import { lintInstruction } from '../../lint/lint-instruction.ts'
import { done, reject } from '../../stage-result.ts'
import type { CandidateState, Stage } from '../stage.ts'
import { loadLintFacts, readChange } from './candidate-inputs.ts'
import { parseExecution, parseInstruction, toJson } from './outputs.ts'

/** The text that agents get: a person's before a model's. */
export const instructionText = (state: CandidateState): string => state.edited ?? parseInstruction(state).markdown

/** Checks the instruction, whether a model or a person wrote it. */
export const lintStage: Stage = {
  version: 2,
  needs: [],
  cacheInputs: (state) => {
    const { base, head, body, issues } = state.candidate
    return [base, head, body, issues, state.outputs.execution ?? null, instructionText(state)]
  },
  async run(state, context, signal) {
    const { failToPass } = parseExecution(state).lists
    const landing = await readChange(state, context, signal)
    const told = { landing, failToPass, pinned: parseInstruction(state).pinned }
    const findings = lintInstruction(instructionText(state), await loadLintFacts(state, context, told, signal))
    const [first] = findings.filter(isBlocking)
    if (first) return reject(first.rule, `${first.detail} ${first.excerpt}`.trim(), { findings })
    return done({ made: null, evidence: toJson({ findings }) })
  },
}
