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
  reads: ({ candidate: { base, head }, generation, made }) => [
    base,
    head,
    generation.sandbox,
    made.environment ?? null,
  ],
  async run(making, tools, signal) {
    const { recipe, plan } = parseEnvironment(making)
    const bench = { tools, signal, tree: await readBase(making, tools, signal) }
    const prepared = await prepareImage(bench, recipe, 'execution')
    if (prepared.kind !== 'done') return prepared
    const { source, hidden } = await readChange(making, tools, signal)
    const order = { image: prepared.value.image, source, hidden, plan, folder: tools.folder }
    const executed = await execute(tools.provider(), order, signal)
    if (executed.kind !== 'done') return executed
    const { runs, unstable, ablation, medianSec, ...made } = executed.value
    const { failToPass, passToPass } = made.lists
    const evidence = { failToPass, passToPass, messages: made.messages, runs, unstable, ablation, medianSec }
    return done({ made: toJson(made), evidence: toJson(evidence), concerns: listExecutionConcerns(made.lists) })
  },
}
