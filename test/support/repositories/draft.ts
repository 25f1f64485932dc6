import type { InstructionDraft } from '../../../src/taskgen/lint/render-instruction.ts'

/** Instructions of a careful author, by number of the pull request. */
export type Drafts = Record<number, InstructionDraft>

export const draft = (title: string, problem: string, expected: string, more: Partial<InstructionDraft> = {}) => ({
  title,
  problem,
  expected,
  actual: null,
  reproduction: null,
  constraints: ['What works today must go on working.'],
  ...more,
})
