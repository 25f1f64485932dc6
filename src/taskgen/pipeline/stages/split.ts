import { splitCommit } from '../../candidates/split-commit.ts'
import { done } from '../../stage-result.ts'
import type { Stage } from '../stage.ts'

/** Splits the change into source, tests and the rest, without loss. */
export const splitStage: Stage = {
  version: 1,
  needs: [],
  cacheInputs: ({ candidate: { base, head } }) => [base, head],
  async run({ candidate }, context, signal) {
    const split = await splitCommit(await context.repository(), candidate, signal)
    if (split.kind !== 'done') return split
    const { baseTree, headTree, hidden, source } = split.value
    const tests = [...hidden.files.map(({ path }) => path), ...hidden.deleted]
    return done({ made: { baseTree, headTree }, evidence: { baseTree, headTree, tests, patch: source } })
  },
}
