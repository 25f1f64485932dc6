import type { InstructionDraft } from '../../../src/taskgen/lint/render-instruction.ts'

/** What a careful author writes, by the number of the pull request. */
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
