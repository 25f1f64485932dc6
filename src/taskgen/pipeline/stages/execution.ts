import { execute } from '../../execution/execute.ts'
import { listExecutionConcerns } from '../../execution/judge-runs.ts'
import { done } from '../../stage-result.ts'
import type { Stage } from '../stage.ts'
import { readBase, readChange } from './candidate-inputs.ts'
import { prepareImage } from './environment.ts'
import { parseEnvironment, toJson } from './outputs.ts'

/** Which tests the change turns, and which it leaves as they were, seen in fresh sandboxes. */
export const executionStage: Stage = {
  version: 3,
  needs: ['sandbox'],
  cacheInputs: ({ candidate: { base, head }, generation, outputs }) => [
    base,
    head,
    generation.sandbox,
    outputs.environment ?? null,
  ],
  async run(state, context, signal) {
    const { recipe, plan } = parseEnvironment(state)
    const attempt = { context, signal, tree: await readBase(state, context, signal) }
    const prepared = await prepareImage(attempt, recipe, 'execution')
    if (prepared.kind !== 'done') return prepared
    const { source, hidden } = await readChange(state, context, signal)
    const input = { image: prepared.value.image, source, hidden, plan, folder: context.folder }
    const executed = await execute(context.provider(), input, signal)
    if (executed.kind !== 'done') return executed
    const { runs, unstable, ablation, medianSec, ...output } = executed.value
    const { failToPass, passToPass } = output.lists
    const evidence = { failToPass, passToPass, messages: output.messages, runs, unstable, ablation, medianSec }
    return done({ made: toJson(output), evidence: toJson(evidence), concerns: listExecutionConcerns(output.lists) })
  },
}
