import { join } from 'node:path'
import { emitGenerated } from '../../assembly/emit-task.ts'
import { USUAL_RESOURCES } from '../../assembly/generated-task.ts'
import { writeEnvironment } from '../../environment/write-environment.ts'
import { done } from '../../stage-result.ts'
import type { Stage } from '../stage.ts'
import { readBase, readLanding } from './candidate-inputs.ts'
import { textOf } from './lint.ts'
import { environmentIn, executionIn, instructionIn } from './outputs.ts'

const TIMEOUTS = { buildSec: 1200, agentSec: 1800 }

/** Whose tasks they are, in the only place of a task that says so. */
const ORGANISATION = 'made'

/** The files of the task, in Harbor's format. The environment is the very one in which the tests ran. */
export const assemblyStage: Stage = {
  version: 3,
  needs: [],
  reads: (making) => [
    ...[making.taskId, making.candidate.base, making.candidate.head, making.candidate.difficulty, textOf(making)],
    ...[making.made.environment ?? null, making.made.execution ?? null],
  ],
  async run(making, tools, signal) {
    const { title } = instructionIn(making)
    const { lists, plan } = executionIn(making)
    const tree = await readBase(making, tools, signal)
    const { place } = await tools.repository()
    const environmentFolder = join(tools.folder, 'environment')
    await writeEnvironment(environmentFolder, { recipe: environmentIn(making).recipe, place, tree }, signal)
    const { source, hidden } = await readLanding(making, tools, signal)
    const emitted = await emitGenerated(tools.target, {
      ...{ environmentFolder, source, hidden, lists, plan, title, markdown: textOf(making) },
      ...{ name: `${ORGANISATION}/${making.taskId}`, difficulty: making.candidate.difficulty },
      ...{ ...TIMEOUTS, resources: USUAL_RESOURCES },
    })
    return emitted.kind === 'done' ? done({ made: null, evidence: null }) : emitted
  },
}
