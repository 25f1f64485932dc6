import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import {
  type CandidateState,
  type Json,
  STAGES,
  type Stage,
  type StageDone,
  type StageName,
  type Stages,
} from '../../../src/taskgen/pipeline/stage.ts'
import { done, type StageResult } from '../../../src/taskgen/stage-result.ts'
import { smallTask } from '../archives.ts'

type Run = Stage['run']
export type Script = Partial<Record<StageName, (...order: Parameters<Run>) => StageResult<StageDone> | ReturnType<Run>>>

export type Scripted = Stages & { runs: { stage: StageName; taskId: string; title: string }[] }

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

const instructionOf = ({ edited, made }: CandidateState): string => edited ?? String(Object(made.authoring).markdown)

const change = ({ candidate: { base, head } }: CandidateState): Json => [base, head]

/** What each depends on, as the real ones do. */
const READS: Record<StageName, (making: CandidateState) => Json> = {
  split: change,
  environment: change,
  execution: change,
  authoring: (making) => [change(making), making.generation.authorModel],
  lint: (making) => [change(making), instructionOf(making)],
  assembly: (making) => [making.taskId, instructionOf(making)],
  validation: ({ files }) => files?.ground ?? null,
  review: ({ files, generation }) => [files?.digest ?? null, generation.verifierModel],
  difficulty: ({ files }) => files?.digest ?? null,
}

/** Stages without sandboxes and models: every candidate becomes a task, and a test can say otherwise. */
export function scriptedStages(script: Script = {}): Scripted {
  const runs: Scripted['runs'] = []
  const stageOf = (stage: StageName): Stage => ({
    version: 1,
    needs: NEEDS[stage],
    reads: READS[stage],
    async run(making, tools, signal) {
      runs.push({ stage, taskId: making.taskId, title: making.candidate.title })
      const said = await script[stage]?.(making, tools, signal)
      if (said) return said
      if (stage === 'assembly') await writeTask(tools.target, making)
      return done(doneAt(stage, making))
    },
  })
  return { ...Object.fromEntries(STAGES.map((stage) => [stage, stageOf(stage)])), runs } as Scripted
}

export function doneAt(stage: StageName, { candidate }: CandidateState): StageDone {
  const made = stage === 'authoring' ? { markdown: `Do as ${candidate.title} does.\n` } : { by: stage }
  return {
    made,
    evidence: { stage, head: candidate.head },
    ...(stage === 'authoring' ? { title: `Task: ${candidate.title}` } : {}),
    ...(stage === 'difficulty' ? { difficulty: candidate.difficulty } : {}),
  }
}

async function writeTask(folder: string, making: CandidateState): Promise<void> {
  const toml = `schema_version = "1.4"\n[task]\nname = "lab/${making.taskId}"\n`
  const files = smallTask({ 'instruction.md': instructionOf(making), 'task.toml': toml })
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), content)
  }
}
