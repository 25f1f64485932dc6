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
  cacheInputs: ({ files, generation }) => [files?.ground ?? null, generation.harborEnvironment, { ...counts }],
  async run(state, context, signal) {
    const { source } = await readChange(state, context, signal)
    const input = {
      folder: await context.files(),
      outputFolder: join(context.folder, 'output'),
      counts,
      source,
      lists: parseExecution(state).lists,
      pinned: parseInstruction(state).pinned,
    }
    const proof = await validateTask(context.provider(), input, signal)
    return proof.kind === 'done' ? done({ made: null, evidence: toJson(proof.value) }) : proof
  },
})
