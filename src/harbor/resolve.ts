import type { Config } from './config.ts'
import { ENVIRONMENT_FOLDER, environmentIn, isDefinedIn, type TaskFolder } from './environment.ts'
import type { Report } from './report.ts'
import { MAIN_SERVICE, mergedEnv } from './settings.ts'
import type { StepConfig } from './step-config.ts'
import type { Agent, Environment, Script, Step, Task, Verifier } from './task.ts'
import { verifierPlace } from './verifier-place.ts'

/** A task without its files, which are hashed only when all else is right. */
export type Outline = Omit<Task, 'files'>

type Surroundings = {
  config: Config
  files: TaskFolder
  /** What the agent is told, by the path of the file. */
  instructions: ReadonlyMap<string, string>
  environment: Environment
  report: Report
}

/** Puts together what task.toml says and what the files of the task say. */
export function resolveTask(
  name: string,
  { config, files, instructions, report }: Omit<Surroundings, 'environment'>,
): Outline {
  const environment = environmentIn(ENVIRONMENT_FOLDER, config.environment, files)
  if (!environment.image && !isDefinedIn(ENVIRONMENT_FOLDER, files)) {
    report.refuse(ENVIRONMENT_FOLDER, 'no_environment', 'A Dockerfile, docker-compose.yaml or docker_image is needed.')
  }
  const around = { config, files, instructions, environment, report }
  const [first, ...others] = config.steps
  if (!first && config.rewardStrategy) {
    report.warn('multi_step_reward_strategy', 'ignored_key', 'It means nothing without steps.')
  }
  return {
    name: config.package?.name ?? name,
    package: config.package,
    source: config.source,
    metadata: config.metadata,
    environment,
    steps: first ? [stepOf(around, first), ...others.map((step) => stepOf(around, step))] : [stepOf(around, null)],
    rewardStrategy: (first && config.rewardStrategy) || 'mean',
    solutionEnv: config.solutionEnv,
  }
}

function stepOf(around: Surroundings, step: StepConfig | null): Step {
  const { config, files, instructions, report } = around
  const start = step ? `steps/${step.name}/` : ''
  const verifier = verifierOf(around, step)
  const artifacts = [...config.artifacts, ...(step?.artifacts ?? [])]
  checkServices(around, [...artifacts, ...verifier.collect])
  if (!instructions.has(`${start}instruction.md`)) {
    report.refuse(`${start}instruction.md`, 'missing_file', 'This file is needed.')
  }
  return {
    name: step?.name ?? null,
    instruction: instructions.get(`${start}instruction.md`) ?? '',
    agent: agentOf(around, step),
    verifier,
    healthcheck: step?.healthcheck ?? null,
    artifacts,
    minReward: step?.minReward ?? [],
    ...(step ? workdirOf(files, `${start}workdir`) : { workdir: null, setup: null }),
    solution: solutionOf(around, start),
    trajectory: files.hasFile(`${start}trajectory.json`) ? `${start}trajectory.json` : null,
  }
}

const workdirOf = (files: TaskFolder, folder: string): Pick<Step, 'workdir' | 'setup'> => ({
  workdir: files.hasFolder(folder) ? folder : null,
  setup: files.hasFile(`${folder}/setup.sh`) ? `${folder}/setup.sh` : null,
})

const agentOf = ({ config: { agent }, environment }: Surroundings, step: StepConfig | null): Agent => ({
  timeoutSec: step?.agent.timeoutSec ?? agent.timeoutSec,
  user: step?.agent.user ?? agent.user,
  network: step?.agent.network ?? agent.network ?? environment.network,
})

/** A step has the user, the network and the variables of the task, but not its timeout: so it is in Harbor. */
function verifierOf(around: Surroundings, step: StepConfig | null): Verifier {
  const { verifier } = around.config
  const { place, hasTests } = verifierPlace(around.config, step, around.files)
  const own = place.mode === 'separate' ? place.environment : around.environment
  return {
    timeoutSec: (step?.verifier ?? verifier).timeoutSec,
    user: step?.verifier.user ?? verifier.user,
    env: mergedEnv(verifier.env, step?.verifier.env ?? []),
    network: step?.verifier.network ?? verifier.network ?? own.network,
    collect: [...verifier.collect, ...(step?.verifier.collect ?? [])],
    place,
    ...(hasTests ? { testFolders: [], testScript: null } : testsOf(around, step, own.os)),
  }
}

function testsOf(
  { files, report }: Surroundings,
  step: StepConfig | null,
  os: Environment['os'],
): Pick<Verifier, 'testFolders' | 'testScript'> {
  const folders = ['tests', ...(step ? [`steps/${step.name}/tests`] : [])]
  const scripts = folders.map((folder) => `${folder}/${scriptName('test', os)}`)
  const testScript = scripts.findLast(files.hasFile) ?? null
  if (testScript === null)
    report.refuse(scripts.at(-1) ?? '', 'missing_file', 'A script that runs the tests is needed.')
  return { testFolders: folders.filter(files.hasFolder), testScript }
}

/** A step without a solution of its own has the one of the task. */
function solutionOf({ files, environment, report }: Surroundings, start: string): Script | null {
  const name = scriptName('solve', environment.os)
  const folder = files.hasFolder(`${start}solution`) ? `${start}solution` : 'solution'
  const script = `${folder}/${name}`
  if (files.hasFile(script)) return { folder, script }
  if (files.hasFolder(folder)) report.warn(script, 'missing_file', 'The solution cannot be run without this file.')
  return null
}

const scriptName = (stem: string, os: Environment['os']): string => `${stem}.${os === 'windows' ? 'bat' : 'sh'}`

function checkServices({ environment, report }: Surroundings, users: readonly { service: string }[]): void {
  const services = new Set([MAIN_SERVICE, ...(environment.compose?.services ?? []).map(({ name }) => name)])
  for (const { service } of users.filter((user) => !services.has(user.service))) {
    report.refuse('task.toml', 'unknown_service', `There is no compose service ${service}.`)
  }
}
