import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Json } from '../../../src/harnesses/json.ts'
import {
  type CandidateState,
  STAGES,
  type Stage,
  type StageDone,
  type StageName,
  type Stages,
} from '../../../src/taskgen/pipeline/stage.ts'
import { done, type StageResult } from '../../../src/taskgen/stage-result.ts'
import { smallTask } from '../archives.ts'

type RunStage = Stage['run']
export type StageScript = Partial<
  Record<StageName, (...args: Parameters<RunStage>) => StageResult<StageDone> | ReturnType<RunStage>>
>

export type ScriptedStages = Stages & { runs: { stage: StageName; taskId: string; title: string }[] }

const NEEDS: Record<StageName, Stage['needs']> = {
  split: [],
  environment: ['sandbox', 'author'],
  execution: ['sandbox'],
  authoring: ['author'],
  lint: [],
  assembly: [],
  validation: ['harbor'],
  review: ['verifier'],
  difficulty: [],
}

const instructionOf = ({ edited, outputs }: CandidateState): string =>
  edited ?? String(Object(outputs.authoring).markdown)

const change = ({ candidate: { base, head } }: CandidateState): Json => [base, head]

/** Dependencies of each stage, equal to those of the real stages. */
const CACHE_INPUTS: Record<StageName, (state: CandidateState) => Json> = {
  split: change,
  environment: change,
  execution: change,
  authoring: (state) => [change(state), state.generation.authorModel],
  lint: (state) => [change(state), instructionOf(state)],
  assembly: (state) => [state.taskId, instructionOf(state)],
  validation: ({ files }) => files?.executableDigest ?? null,
  review: ({ files, generation }) => [files?.digest ?? null, generation.verifierModel],
  difficulty: ({ files }) => files?.digest ?? null,
}

/** Creates stages without sandboxes and models. Every candidate becomes a task unless the test overrides it. */
export function createScriptedStages(script: StageScript = {}): ScriptedStages {
  const runs: ScriptedStages['runs'] = []
  const createStage = (stage: StageName): Stage => ({
    version: 1,
    needs: NEEDS[stage],
    cacheInputs: CACHE_INPUTS[stage],
    async run(state, context, signal) {
      runs.push({ stage, taskId: state.taskId, title: state.candidate.title })
      const scripted = await script[stage]?.(state, context, signal)
      if (scripted) return scripted
      if (stage === 'assembly') await writeTask(context.target, state)
      return done(doneAt(stage, state))
    },
  })
  return { ...Object.fromEntries(STAGES.map((stage) => [stage, createStage(stage)])), runs } as ScriptedStages
}

export function doneAt(stage: StageName, { candidate }: CandidateState): StageDone {
  const output = stage === 'authoring' ? { markdown: `Do as ${candidate.title} does.\n` } : { by: stage }
  return {
    output,
    evidence: { stage, head: candidate.head },
    title: stage === 'authoring' ? `Task: ${candidate.title}` : undefined,
    difficulty: stage === 'difficulty' ? candidate.difficulty : undefined,
  }
}

async function writeTask(folder: string, state: CandidateState): Promise<void> {
  const toml = `schema_version = "1.4"\n[task]\nname = "lab/${state.taskId}"\n`
  const files = smallTask({ 'instruction.md': instructionOf(state), 'task.toml': toml })
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), content)
  }
}
