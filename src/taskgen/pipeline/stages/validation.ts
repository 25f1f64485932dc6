import { join } from 'node:path'
import { done } from '../../stage-result.ts'
import { validateTask } from '../../validation/validate-task.ts'
import { FULL_COUNTS, type TrialCounts } from '../../validation/validation.ts'
import type { Stage } from '../stage.ts'
import { readChange } from './candidate-inputs.ts'
import { parseExecution, parseInstruction, toJson } from './outputs.ts'

/** Validates the finished files in the selected sandbox. Independent of the instruction. */
export const validationStage = (counts: TrialCounts = FULL_COUNTS): Stage => ({
  version: 3,
  needs: ['harbor'],
  reads: ({ files, generation }) => [files?.ground ?? null, generation.harborEnvironment, { ...counts }],
  async run(making, tools, signal) {
    const { source } = await readChange(making, tools, signal)
    const order = {
      folder: await tools.files(),
      outputFolder: join(tools.folder, 'output'),
      counts,
      source,
      lists: parseExecution(making).lists,
      pinned: parseInstruction(making).pinned,
    }
    const proof = await validateTask(tools.provider(), order, signal)
    return proof.kind === 'done' ? done({ made: null, evidence: toJson(proof.value) }) : proof
  },
})
