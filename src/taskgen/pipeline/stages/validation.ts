import { join } from 'node:path'
import { done } from '../../stage-result.ts'
import { prove } from '../../validation/validate-task.ts'
import { type Counts, FULL_COUNTS } from '../../validation/validation.ts'
import type { Stage } from '../stage.ts'
import { readLanding } from './candidate-inputs.ts'
import { executionIn, instructionIn, plain } from './outputs.ts'

/** What the finished files are worth, in the place that was chosen for it. The instruction has no part in it. */
export const validationStage = (counts: Counts = FULL_COUNTS): Stage => ({
  version: 3,
  needs: ['harbor'],
  reads: ({ files, generation }) => [files?.ground ?? null, generation.harborEnvironment, { ...counts }],
  async run(making, tools, signal) {
    const { source } = await readLanding(making, tools, signal)
    const order = {
      ...{ folder: await tools.files(), outputFolder: join(tools.folder, 'output'), counts, source },
      ...{ lists: executionIn(making).lists, pinned: instructionIn(making).pinned },
    }
    const proof = await prove(tools.provider(), order, signal)
    return proof.kind === 'done' ? done({ made: null, evidence: plain(proof.value) }) : proof
  },
})
