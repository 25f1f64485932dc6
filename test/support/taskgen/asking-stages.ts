import type { StageContext, StageDone } from '../../../src/taskgen/pipeline/stage.ts'
import type { StageResult } from '../../../src/taskgen/stage-result.ts'
import { createScriptedStages, type StageScript } from './scripted-stages.ts'

type Role = 'author' | 'verifier'

const LIMITS = { budgetMicros: 1_000_000, outputMicros: 100_000, callsMax: 10, durationMs: 600_000 }
const shape = { name: 'answer', schema: { type: 'object' } }

/** Calls the model once. The rest of the budget may be too small for that. */
async function ask(
  tools: StageContext,
  role: Role,
  padding: string,
  signal: AbortSignal,
): Promise<StageResult<StageDone> | undefined> {
  const model = await tools.model(role, LIMITS)
  const messages = [{ role: 'user' as const, text: `Work as ${role}.${padding}` }]
  const answer = await model.ask({ system: 'You help.', messages, shape }, signal)
  if (answer.kind === 'spent') throw new Error(answer.detail)
  return answer.kind === 'deferred' ? answer : undefined
}

/**
 * Scripted stages, two of which call their models through the real gateway. `padding` makes the requests as long as the
 * usage that the provider claims: the gateway does not believe more tokens than a request has bytes.
 */
export const askingStages = (script: StageScript = {}, padding = '') =>
  createScriptedStages({
    authoring: async (_, tools, signal) => (await ask(tools, 'author', padding, signal)) as never,
    review: async (_, tools, signal) => (await ask(tools, 'verifier', padding, signal)) as never,
    ...script,
  })
