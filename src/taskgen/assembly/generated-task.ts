import { REPOSITORY_FOLDER } from '../../grading/suite.ts'
import { GENERATED_LIMITS } from '../../harbor/limits.ts'
import { MAIN_SERVICE } from '../../harbor/settings.ts'
import type { Environment, Task } from '../../harbor/task.ts'
import type { Difficulty } from '../schema.ts'
import { COLLECT_PATHS, collectScript } from './collect-hook.ts'

/** Fields of a generated task. They reveal nothing about the origin of the task. */
export type GeneratedTaskInput = {
  /** `org/slug`, with a random slug. */
  name: string
  title: string
  markdown: string
  difficulty: Difficulty
  buildSec: number
  agentSec: number
  verifierSec: number
  resources: { cpus: number; memoryMb: number; storageMb: number }
}

/** Resources of generated tasks. The health check runs every suite with the same limits, so they suffice. */
const { cpus, memoryMb, diskMb } = GENERATED_LIMITS
export const DEFAULT_RESOURCES: GeneratedTaskInput['resources'] = { cpus, memoryMb, storageMb: diskMb }

/**
 * Builds a task with a separate verifier that sees only the agent's patch. No phase has network access; models are
 * reached through the gateway tunnel.
 */
export function buildTask(input: GeneratedTaskInput): Omit<Task, 'files'> {
  const { name, title, markdown, difficulty, agentSec } = input
  return {
    name,
    package: { name, version: null, description: title, authors: [], keywords: [] },
    source: null,
    metadata: { difficulty },
    environment: buildEnvironment('environment', input),
    steps: [
      {
        name: null,
        instruction: markdown,
        agent: { timeoutSec: agentSec, user: null, network: NO_NETWORK },
        verifier: buildVerifier(input),
        healthcheck: null,
        artifacts: [
          { source: COLLECT_PATHS.submission, destination: 'submission.patch', exclude: [], service: MAIN_SERVICE },
        ],
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

const NO_NETWORK = { mode: 'no-network' as const, hosts: [] }

const COLLECT_SECONDS = 300

const buildVerifier = (input: GeneratedTaskInput): Task['steps'][0]['verifier'] => ({
  timeoutSec: input.verifierSec,
  user: 'root',
  env: [],
  network: NO_NETWORK,
  collect: [{ command: collectScript(), service: MAIN_SERVICE, timeoutSec: COLLECT_SECONDS, user: 'root' }],
  place: { mode: 'separate', environment: buildEnvironment('tests', input) },
  testFolders: [],
  testScript: null,
})

const buildEnvironment = (folder: string, { buildSec, resources }: GeneratedTaskInput): Environment => ({
  os: 'linux',
  folder,
  image: null,
  dockerfile: `${folder}/Dockerfile`,
  compose: null,
  buildTimeoutSec: buildSec,
  resources: { ...resources, gpus: null, gpuTypes: null, tpu: null },
  network: NO_NETWORK,
  env: [],
  mcpServers: [],
  skillsDir: null,
  healthcheck: null,
  workdir: REPOSITORY_FOLDER,
})
