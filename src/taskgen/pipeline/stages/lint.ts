import { isBlocking } from '../../lint/finding.ts'
import { lintInstruction } from '../../lint/lint-instruction.ts'
import { done, reject } from '../../stage-result.ts'
import type { CandidateState, Stage } from '../stage.ts'
import { loadLintFacts, readChange } from './candidate-inputs.ts'
import { parseExecution, parseInstruction, toJson } from './outputs.ts'

/** The text that agents get: a person's before a model's. */
export const instructionText = (making: CandidateState): string => making.edited ?? parseInstruction(making).markdown

/** Checks the instruction, whether a model or a person wrote it. */
export const lintStage: Stage = {
  version: 2,
  needs: [],
  reads: (making) => {
    const { base, head, body, issues } = making.candidate
    return [base, head, body, issues, making.made.execution ?? null, instructionText(making)]
  },
  async run(making, tools, signal) {
    const { failToPass } = parseExecution(making).lists
    const landing = await readChange(making, tools, signal)
    const told = { landing, failToPass, pinned: parseInstruction(making).pinned }
    const findings = lintInstruction(instructionText(making), await loadLintFacts(making, tools, told, signal))
    const [first] = findings.filter(isBlocking)
    if (first) return reject(first.rule, `${first.detail} ${first.excerpt}`.trim(), { findings })
    return done({ made: null, evidence: toJson({ findings }) })
  },
}
