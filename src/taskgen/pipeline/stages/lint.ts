import { isBlocking } from '../../lint/finding.ts'
import { lintInstruction } from '../../lint/lint-instruction.ts'
import { done, reject } from '../../stage-result.ts'
import type { Making, Stage } from '../stage.ts'
import { lintFactsOf, readLanding } from './candidate-inputs.ts'
import { executionIn, instructionIn, plain } from './outputs.ts'

/** The text that agents get: a person's before a model's. */
export const textOf = (making: Making): string => making.edited ?? instructionIn(making).markdown

/** Nothing given away, nothing left out: of whoever wrote it. */
export const lintStage: Stage = {
  version: 2,
  needs: [],
  reads: (making) => {
    const { base, head, body, issues } = making.candidate
    return [base, head, body, issues, making.made.execution ?? null, textOf(making)]
  },
  async run(making, tools, signal) {
    const { failToPass } = executionIn(making).lists
    const landing = await readLanding(making, tools, signal)
    const told = { landing, failToPass, pinned: instructionIn(making).pinned }
    const findings = lintInstruction(textOf(making), await lintFactsOf(making, tools, told, signal))
    const [first] = findings.filter(isBlocking)
    if (first) return reject(first.rule, `${first.detail} ${first.excerpt}`.trim(), { findings })
    return done({ made: null, evidence: plain({ findings }) })
  },
}
