import { join } from 'node:path'
import { emitTask } from '../../assembly/emit-task.ts'
import { DEFAULT_RESOURCES } from '../../assembly/generated-task.ts'
import { writeEnvironment } from '../../environment/write-environment.ts'
import { done } from '../../stage-result.ts'
import type { Stage } from '../stage.ts'
import { readBase, readChange } from './candidate-inputs.ts'
import { instructionText } from './lint.ts'
import { parseEnvironment, parseExecution, parseInstruction } from './outputs.ts'

const TIMEOUTS = { buildSec: 1200, agentSec: 1800 }

/** Organisation in the name of generated tasks. */
const ORGANISATION = 'made'

/** Writes the task's files in Harbor's format, with the environment in which the tests ran. */
export const assemblyStage: Stage = {
  version: 3,
  needs: [],
  cacheInputs: (state) => [
    state.taskId,
    state.candidate.base,
    state.candidate.head,
    state.candidate.difficulty,
    instructionText(state),
    state.outputs.environment ?? null,
    state.outputs.execution ?? null,
  ],
  async run(state, context, signal) {
    const { title } = parseInstruction(state)
    const { lists, plan } = parseExecution(state)
    const tree = await readBase(state, context, signal)
    const { place } = await context.repository()
    const environmentFolder = join(context.folder, 'environment')
    await writeEnvironment(environmentFolder, { recipe: parseEnvironment(state).recipe, place, tree }, signal)
    const { source, hidden } = await readChange(state, context, signal)
    const emitted = await emitTask(context.target, {
      environmentFolder,
      source,
      hidden,
      lists,
      plan,
      title,
      markdown: instructionText(state),
      name: `${ORGANISATION}/${state.taskId}`,
      difficulty: state.candidate.difficulty,
      ...TIMEOUTS,
      resources: DEFAULT_RESOURCES,
    })
    return emitted.kind === 'done' ? done({ made: null, evidence: null }) : emitted
  },
}
