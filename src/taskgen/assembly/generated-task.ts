import { REPOSITORY_FOLDER } from '../../grading/suite.ts'
import { GENERATED_LIMITS } from '../../harbor/default-limits.ts'
import { MAIN_SERVICE } from '../../harbor/settings.ts'
import type { Environment, Task } from '../../harbor/task.ts'
import type { Difficulty } from '../schema.ts'
import { collect, PLACES } from './collect-hook.ts'

/** What a task says of itself. Nothing here tells where it came from: that stays outside of it. */
export type Outline = {
  /** `org/slug`, the slug drawn by lot. */
  name: string
  title: string
  markdown: string
  difficulty: Difficulty
  buildSec: number
  agentSec: number
  verifierSec: number
  resources: { cpus: number; memoryMb: number; storageMb: number }
}

/** Enough for a suite of tests that was let into a batch. */
const { cpus, memoryMb, diskMb } = GENERATED_LIMITS
export const USUAL_RESOURCES: Outline['resources'] = { cpus, memoryMb, storageMb: diskMb }

/**
 * A verifier of its own, which sees the patch and nothing else of the agent. No phase has a network: a model is reached
 * by a way of its own, and whoever runs the task elsewhere adds its address there.
 */
export function generatedTask(outline: Outline): Omit<Task, 'files'> {
  const { name, title, markdown, difficulty, agentSec } = outline
  return {
    name,
    package: { name, version: null, description: title, authors: [], keywords: [] },
    source: null,
    metadata: { difficulty },
    environment: environmentIn('environment', outline),
    steps: [
      {
        name: null,
        instruction: markdown,
        agent: { timeoutSec: agentSec, user: null, network: NONE },
        verifier: verifierOf(outline),
        healthcheck: null,
        artifacts: [{ source: PLACES.submission, destination: 'submission.patch', exclude: [], service: MAIN_SERVICE }],
        minReward: [],
        workdir: null,
        setup: null,
        solution: { folder: 'solution', script: 'solution/solve.sh' },
        trajectory: null,
      },
    ],
    rewardStrategy: 'mean',
    solutionEnv: [],
  }
}

const NONE = { mode: 'no-network' as const, hosts: [] }

const COLLECT_SECONDS = 300

const verifierOf = (outline: Outline): Task['steps'][0]['verifier'] => ({
  timeoutSec: outline.verifierSec,
  user: 'root',
  env: [],
  network: NONE,
  collect: [{ command: collect(), service: MAIN_SERVICE, timeoutSec: COLLECT_SECONDS, user: 'root' }],
  place: { mode: 'separate', environment: environmentIn('tests', outline) },
  testFolders: [],
  testScript: null,
})

const environmentIn = (folder: string, { buildSec, resources }: Outline): Environment => ({
  os: 'linux',
  folder,
  image: null,
  dockerfile: `${folder}/Dockerfile`,
  compose: null,
  buildTimeoutSec: buildSec,
  resources: { ...resources, gpus: null, gpuTypes: null, tpu: null },
  network: NONE,
  env: [],
  mcpServers: [],
  skillsDir: null,
  healthcheck: null,
  workdir: REPOSITORY_FOLDER,
})
