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
  reads: (making) => [
    making.taskId,
    making.candidate.base,
    making.candidate.head,
    making.candidate.difficulty,
    instructionText(making),
    making.made.environment ?? null,
    making.made.execution ?? null,
  ],
  async run(making, tools, signal) {
    const { title } = parseInstruction(making)
    const { lists, plan } = parseExecution(making)
    const tree = await readBase(making, tools, signal)
    const { place } = await tools.repository()
    const environmentFolder = join(tools.folder, 'environment')
    await writeEnvironment(environmentFolder, { recipe: parseEnvironment(making).recipe, place, tree }, signal)
    const { source, hidden } = await readChange(making, tools, signal)
    const emitted = await emitTask(tools.target, {
      environmentFolder,
      source,
      hidden,
      lists,
      plan,
      title,
      markdown: instructionText(making),
      name: `${ORGANISATION}/${making.taskId}`,
      difficulty: making.candidate.difficulty,
      ...TIMEOUTS,
      resources: DEFAULT_RESOURCES,
    })
    return emitted.kind === 'done' ? done({ made: null, evidence: null }) : emitted
  },
}
