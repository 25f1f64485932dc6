import type { TaskConfig } from './config.ts'
import { buildEnvironment, ENVIRONMENT_FOLDER, type EnvironmentFiles, isDefinedIn } from './environment.ts'
import type { EnvironmentConfig } from './environment-config.ts'
import type { Report } from './report.ts'
import { MAIN_SERVICE, mergeEnv } from './settings.ts'
import type { StepConfig } from './step-config.ts'
import type { Agent, Environment, Task, TaskScript, TaskStep, Verifier, VerifierSandbox } from './task.ts'

/** A task without its files, which are hashed only after everything else was found valid. */
export type TaskOutline = Omit<Task, 'files'>

type ResolveContext = {
  config: TaskConfig
  files: EnvironmentFiles
  /** Instructions by file path. */
  instructions: ReadonlyMap<string, string>
  environment: Environment
  report: Report
}

/** Combines the settings of task.toml with the files of the task. */
export function resolveTask(
  name: string,
  { config, files, instructions, report }: Omit<ResolveContext, 'environment'>,
): TaskOutline {
  const environment = buildEnvironment(ENVIRONMENT_FOLDER, config.environment, files)
  if (!environment.image && !isDefinedIn(ENVIRONMENT_FOLDER, files)) {
    report.refuse(
      ENVIRONMENT_FOLDER,
      'no_environment',
      'A Dockerfile, docker-compose.yaml or docker_image is required.',
    )
  }
  const context = { config, files, instructions, environment, report }
  const [first, ...others] = config.steps
  if (!first && config.rewardStrategy) {
    report.warn('multi_step_reward_strategy', 'ignored_key', 'This key has no effect without steps.')
  }
  return {
    name: config.package?.name ?? name,
    package: config.package,
    source: config.source,
    metadata: config.metadata,
    environment,
    steps: first
      ? [resolveStep(context, first), ...others.map((step) => resolveStep(context, step))]
      : [resolveStep(context, null)],
    rewardStrategy: (first ? config.rewardStrategy : null) ?? 'mean',
    solutionEnv: config.solutionEnv,
  }
}

function resolveStep(context: ResolveContext, step: StepConfig | null): TaskStep {
  const { config, files, instructions, report } = context
  const prefix = step ? `steps/${step.name}/` : ''
  const verifier = resolveVerifier(context, step)
  const artifacts = [...config.artifacts, ...(step?.artifacts ?? [])]
  checkServices(context, [...artifacts, ...verifier.collect])
  if (!instructions.has(`${prefix}instruction.md`)) {
    report.refuse(`${prefix}instruction.md`, 'missing_file', 'Required file is missing.')
  }
  return {
    name: step?.name ?? null,
    instruction: instructions.get(`${prefix}instruction.md`) ?? '',
    agent: resolveAgent(context, step),
    verifier,
    healthcheck: step?.healthcheck ?? null,
    artifacts,
    minReward: step?.minReward ?? [],
    ...(step ? resolveWorkdir(files, `${prefix}workdir`) : { workdir: null, setup: null }),
    solution: findSolution(context, prefix),
    trajectory: files.hasFile(`${prefix}trajectory.json`) ? `${prefix}trajectory.json` : null,
  }
}

const resolveWorkdir = (files: EnvironmentFiles, folder: string): Pick<TaskStep, 'workdir' | 'setup'> => ({
  workdir: files.hasFolder(folder) ? folder : null,
  setup: files.hasFile(`${folder}/setup.sh`) ? `${folder}/setup.sh` : null,
})

const resolveAgent = ({ config: { agent }, environment }: ResolveContext, step: StepConfig | null): Agent => ({
  timeoutSec: step?.agent.timeoutSec ?? agent.timeoutSec,
  user: step?.agent.user ?? agent.user,
  network: step?.agent.network ?? agent.network ?? environment.network,
})

/**
 * Resolves the verifier of a step. As in Harbor, a step inherits the task's user, network and variables, not its
 * timeout.
 */
function resolveVerifier(context: ResolveContext, step: StepConfig | null): Verifier {
  const { verifier } = context.config
  const { sandbox, hasTests } = resolveVerifierSandbox(context.config, step, context.files)
  const verifierEnvironment = sandbox.mode === 'separate' ? sandbox.environment : context.environment
  return {
    timeoutSec: (step?.verifier ?? verifier).timeoutSec,
    user: step?.verifier.user ?? verifier.user,
    env: mergeEnv(verifier.env, step?.verifier.env ?? []),
    network: step?.verifier.network ?? verifier.network ?? verifierEnvironment.network,
    collect: [...verifier.collect, ...(step?.verifier.collect ?? [])],
    sandbox,
    ...(hasTests ? { testFolders: [], testScript: null } : resolveTests(context, step, verifierEnvironment.os)),
  }
}

function resolveTests(
  { files, report }: ResolveContext,
  step: StepConfig | null,
  os: Environment['os'],
): Pick<Verifier, 'testFolders' | 'testScript'> {
  const folders = ['tests', ...(step ? [`steps/${step.name}/tests`] : [])]
  const scripts = folders.map((folder) => `${folder}/${scriptName('test', os)}`)
  const testScript = scripts.findLast(files.hasFile) ?? null
  if (testScript === null)
    report.refuse(scripts.at(-1) ?? '', 'missing_file', 'The script that runs the tests is missing.')
  return { testFolders: folders.filter(files.hasFolder), testScript }
}

/** Finds the reference solution of a step, or else that of the task. */
function findSolution({ files, environment, report }: ResolveContext, prefix: string): TaskScript | null {
  const name = scriptName('solve', environment.os)
  const folder = files.hasFolder(`${prefix}solution`) ? `${prefix}solution` : 'solution'
  const script = `${folder}/${name}`
  if (files.hasFile(script)) return { folder, script }
  if (files.hasFolder(folder))
    report.warn(script, 'missing_file', 'The reference solution cannot be run without this file.')
  return null
}

const scriptName = (stem: string, os: Environment['os']): string => `${stem}.${os === 'windows' ? 'bat' : 'sh'}`

function checkServices({ environment, report }: ResolveContext, references: readonly { service: string }[]): void {
  const services = new Set([MAIN_SERVICE, ...(environment.compose?.services ?? []).map(({ name }) => name)])
  for (const { service } of references.filter((reference) => !services.has(reference.service))) {
    report.refuse('task.toml', 'unknown_service', `Unknown compose service ${service}.`)
  }
}

/** The sandbox of a verifier. `hasTests` means that its image contains the tests, so nothing is uploaded to /tests. */
type ResolvedVerifierSandbox = { sandbox: VerifierSandbox; hasTests: boolean }

/** Resolves where the tests of a step run. Null stands for a task without steps. */
function resolveVerifierSandbox(
  config: TaskConfig,
  step: StepConfig | null,
  files: EnvironmentFiles,
): ResolvedVerifierSandbox {
  const mode = step?.verifier.mode ?? config.verifier.mode ?? 'shared'
  if (mode === 'shared') return { sandbox: { mode }, hasTests: false }
  const settings = step?.verifier.environment ?? config.verifier.environment ?? config.environment
  const ownImage = findOwnImage(config, step, files)
  if (!ownImage)
    return { sandbox: { mode, environment: buildAgentLikeEnvironment(config, settings, files) }, hasTests: false }
  const environment = buildEnvironment(ownImage.folder, { ...settings, image: ownImage.image }, files)
  return { sandbox: { mode, environment }, hasTests: true }
}

type VerifierImage = { folder: string; image: string | null }

/** Finds the verifier's own image, named or built from the folder of the tests. The step takes precedence. */
function findOwnImage(config: TaskConfig, step: StepConfig | null, files: EnvironmentFiles): VerifierImage | undefined {
  const candidates: [EnvironmentConfig | null, string][] = [[config.verifier.environment, 'tests']]
  if (step) candidates.unshift([step.verifier.environment, `steps/${step.name}/tests`])
  for (const [environment, folder] of candidates) {
    if (environment?.image) return { folder, image: environment.image }
    if (isDefinedIn(folder, files)) return { folder, image: null }
  }
  return undefined
}

/** Builds the environment of a verifier without an image of its own: the agent's image with the verifier's settings. */
function buildAgentLikeEnvironment(config: TaskConfig, settings: EnvironmentConfig, files: EnvironmentFiles) {
  const { image, os } = config.environment
  return buildEnvironment(ENVIRONMENT_FOLDER, { ...settings, image, os: settings.os ?? os }, files)
}
