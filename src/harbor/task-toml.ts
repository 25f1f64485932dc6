import { stringify } from 'smol-toml'
import { NEWEST_SCHEMA } from './schema-versions.ts'
import { MAIN_SERVICE } from './settings.ts'
import type {
  Agent,
  CollectHook,
  Environment,
  EnvVar,
  Healthcheck,
  McpServer,
  Network,
  PackageInfo,
  Task,
  TaskArtifact,
  TaskStep,
  Verifier,
} from './task.ts'
import { formatTemplate } from './template.ts'

/**
 * Formats a task as task.toml of the newest schema, with a fixed key order and all defaults written out. Empty tables and
 * lists are omitted. Settings that steps inherit from the task are written in each step.
 */
export function formatTaskToml(task: Task): string {
  const [first] = task.steps
  const isSingle = first.name === null
  const table = dropEmpty({
    schema_version: NEWEST_SCHEMA,
    source: task.source,
    multi_step_reward_strategy: isSingle ? null : task.rewardStrategy,
    task: task.package && toPackageToml(task.package),
    environment: toEnvironmentToml(task.environment),
    solution: { env: toEnvToml(task.solutionEnv) },
    ...(isSingle
      ? toPhasesToml(first)
      : { verifier: toSharedImageToml(task.steps), steps: task.steps.map(toStepToml) }),
  })
  return stringify({ ...table, ...(isEmpty(task.metadata) ? {} : { metadata: task.metadata }) })
}

const toPackageToml = ({ name, version, description, authors, keywords }: PackageInfo) => ({
  name,
  version,
  description: description || null,
  keywords,
  authors: authors.map(dropEmpty),
})

const toStepToml = (step: TaskStep) =>
  dropEmpty({
    name: step.name,
    healthcheck: step.healthcheck && toHealthcheckToml(step.healthcheck),
    min_reward: Object.fromEntries(step.minReward.map(({ key, atLeast }) => [key, atLeast])),
    ...toPhasesToml({ ...step, verifier: withoutSharedImage(step.verifier) }),
  })

function withoutSharedImage(verifier: Verifier): Verifier {
  const { sandbox } = verifier
  if (sandbox.mode === 'shared' || sandbox.environment.folder !== TESTS_FOLDER) return verifier
  return { ...verifier, sandbox: { ...sandbox, environment: { ...sandbox.environment, image: null } } }
}

/**
 * Returns the verifier image that the task declares for all steps: the one whose folder is that of the task's tests.
 */
function toSharedImageToml(steps: readonly TaskStep[]) {
  const environments = steps.flatMap(({ verifier: { sandbox } }) =>
    sandbox.mode === 'separate' ? [sandbox.environment] : [],
  )
  const image = environments.find(({ folder }) => folder === TESTS_FOLDER)?.image
  return image ? { environment: { docker_image: image } } : null
}

const TESTS_FOLDER = 'tests'

const toPhasesToml = ({ agent, verifier, artifacts }: TaskStep) => ({
  agent: toAgentToml(agent),
  verifier: toVerifierToml(verifier),
  artifacts: artifacts.map(toArtifactToml),
})

const toAgentToml = ({ timeoutSec, user, network }: Agent) => ({
  timeout_sec: timeoutSec,
  user,
  ...toNetworkToml(network),
})

/** Omits the image if the tests are files of the task, because Harbor expects a named image to contain the tests. */
function toVerifierToml({ timeoutSec, user, env, network, collect, sandbox, testScript }: Verifier) {
  const verifierEnvironment = sandbox.mode === 'separate' ? sandbox.environment : null
  return {
    timeout_sec: timeoutSec,
    user,
    ...toNetworkToml(network),
    environment_mode: sandbox.mode,
    env: toEnvToml(env),
    collect: collect.map(toCollectToml),
    environment:
      verifierEnvironment &&
      toEnvironmentToml(testScript === null ? verifierEnvironment : { ...verifierEnvironment, image: null }),
  }
}

const toEnvironmentToml = ({ os, image, buildTimeoutSec, resources, network, ...rest }: Environment) => ({
  os,
  docker_image: image,
  build_timeout_sec: buildTimeoutSec,
  cpus: resources.cpus,
  memory_mb: resources.memoryMb,
  storage_mb: resources.storageMb,
  gpus: resources.gpus,
  gpu_types: resources.gpuTypes,
  tpu: resources.tpu,
  ...toNetworkToml(network),
  workdir: rest.workdir,
  skills_dir: rest.skillsDir,
  env: toEnvToml(rest.env),
  healthcheck: rest.healthcheck && toHealthcheckToml(rest.healthcheck),
  mcp_servers: rest.mcpServers.map(toServerToml),
})

const toNetworkToml = ({ mode, hosts }: Network) => ({
  network_mode: mode === 'undeclared' ? null : mode,
  allowed_hosts: hosts,
})

const toHealthcheckToml = (check: Healthcheck) => ({
  command: check.command,
  interval_sec: check.intervalSec,
  timeout_sec: check.timeoutSec,
  start_period_sec: check.startPeriodSec,
  start_interval_sec: check.startIntervalSec,
  retries: check.retries,
})

const toCollectToml = ({ command, service, timeoutSec, user }: CollectHook) =>
  dropEmpty({ command, service, timeout_sec: timeoutSec, user })

const toArtifactToml = ({ source, destination, exclude, service }: TaskArtifact) =>
  dropEmpty({ source, destination, service: service === MAIN_SERVICE ? null : service, exclude })

const toServerToml = (server: McpServer) =>
  dropEmpty({ ...server, ...(server.transport === 'stdio' ? {} : { headers: toEnvToml(server.headers) }) })

const toEnvToml = (env: EnvVar[]) => Object.fromEntries(env.map(({ name, value }) => [name, formatTemplate(value)]))

/** Removes null values, empty tables and empty lists. */
const dropEmpty = (table: object): object =>
  Object.fromEntries(
    Object.entries(table)
      .map(([key, value]) => [key, isTable(value) ? dropEmpty(value) : value])
      .filter(([, value]) => value !== null && !isEmpty(value)),
  )

const isTable = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isEmpty = (value: unknown): boolean => typeof value === 'object' && Object.keys(value ?? {}).length === 0
