import { stringify } from 'smol-toml'
import { NEWEST_SCHEMA } from './schema-versions.ts'
import { MAIN_SERVICE } from './settings.ts'
import type {
  Agent,
  Artifact,
  CollectHook,
  Environment,
  EnvVar,
  Healthcheck,
  McpServer,
  Network,
  PackageInfo,
  Step,
  Task,
  Verifier,
} from './task.ts'
import { templateText } from './template.ts'

/**
 * task.toml of the newest schema: one order, every setting written out, nothing said that is a table or list without
 * entries. What the steps have from the task stands in each step.
 */
export function taskToml(task: Task): string {
  const [first] = task.steps
  const isSingle = first.name === null
  const table = kept({
    schema_version: NEWEST_SCHEMA,
    source: task.source,
    multi_step_reward_strategy: isSingle ? null : task.rewardStrategy,
    task: task.package && packageToml(task.package),
    environment: environmentToml(task.environment),
    solution: { env: envToml(task.solutionEnv) },
    ...(isSingle ? phasesToml(first) : { verifier: sharedImageToml(task.steps), steps: task.steps.map(stepToml) }),
  })
  return stringify({ ...table, ...(isEmpty(task.metadata) ? {} : { metadata: task.metadata }) })
}

const packageToml = ({ name, version, description, authors, keywords }: PackageInfo) => ({
  name,
  version,
  description: description || null,
  keywords,
  authors: authors.map(kept),
})

const stepToml = (step: Step) =>
  kept({
    name: step.name,
    healthcheck: step.healthcheck && healthcheckToml(step.healthcheck),
    min_reward: Object.fromEntries(step.minReward.map(({ key, atLeast }) => [key, atLeast])),
    ...phasesToml({ ...step, verifier: withoutSharedImage(step.verifier) }),
  })

function withoutSharedImage(verifier: Verifier): Verifier {
  const { place } = verifier
  if (place.mode === 'shared' || place.environment.folder !== TESTS_FOLDER) return verifier
  return { ...verifier, place: { ...place, environment: { ...place.environment, image: null } } }
}

/** An image whose folder is the one with the tests of the task was named by the task, for all steps. */
function sharedImageToml(steps: readonly Step[]) {
  const environments = steps.flatMap(({ verifier: { place } }) =>
    place.mode === 'separate' ? [place.environment] : [],
  )
  const image = environments.find(({ folder }) => folder === TESTS_FOLDER)?.image
  return image ? { environment: { docker_image: image } } : null
}

const TESTS_FOLDER = 'tests'

const phasesToml = ({ agent, verifier, artifacts }: Step) => ({
  agent: agentToml(agent),
  verifier: verifierToml(verifier),
  artifacts: artifacts.map(artifactToml),
})

const agentToml = ({ timeoutSec, user, network }: Agent) => ({ timeout_sec: timeoutSec, user, ...networkToml(network) })

/** Without its own image a verifier has the agent's, which must not be named here: it would then bring the tests. */
function verifierToml({ timeoutSec, user, env, network, collect, place, testScript }: Verifier) {
  const own = place.mode === 'separate' ? place.environment : null
  return {
    timeout_sec: timeoutSec,
    user,
    ...networkToml(network),
    environment_mode: place.mode,
    env: envToml(env),
    collect: collect.map(collectToml),
    environment: own && environmentToml(testScript === null ? own : { ...own, image: null }),
  }
}

const environmentToml = ({ os, image, buildTimeoutSec, resources, network, ...rest }: Environment) => ({
  os,
  docker_image: image,
  build_timeout_sec: buildTimeoutSec,
  cpus: resources.cpus,
  memory_mb: resources.memoryMb,
  storage_mb: resources.storageMb,
  gpus: resources.gpus,
  gpu_types: resources.gpuTypes,
  tpu: resources.tpu,
  ...networkToml(network),
  workdir: rest.workdir,
  skills_dir: rest.skillsDir,
  env: envToml(rest.env),
  healthcheck: rest.healthcheck && healthcheckToml(rest.healthcheck),
  mcp_servers: rest.mcpServers.map(serverToml),
})

const networkToml = ({ mode, hosts }: Network) => ({
  network_mode: mode === 'unsaid' ? null : mode,
  allowed_hosts: hosts,
})

const healthcheckToml = (check: Healthcheck) => ({
  command: check.command,
  interval_sec: check.intervalSec,
  timeout_sec: check.timeoutSec,
  start_period_sec: check.startPeriodSec,
  start_interval_sec: check.startIntervalSec,
  retries: check.retries,
})

const collectToml = ({ command, service, timeoutSec, user }: CollectHook) =>
  kept({ command, service, timeout_sec: timeoutSec, user })

const artifactToml = ({ source, destination, exclude, service }: Artifact) =>
  kept({ source, destination, service: service === MAIN_SERVICE ? null : service, exclude })

const serverToml = (server: McpServer) =>
  kept({ ...server, ...(server.transport === 'stdio' ? {} : { headers: envToml(server.headers) }) })

const envToml = (env: EnvVar[]) => Object.fromEntries(env.map(({ name, value }) => [name, templateText(value)]))

/** Without what is null, and without tables and lists that have no entries. */
const kept = (table: object): object =>
  Object.fromEntries(
    Object.entries(table)
      .map(([key, value]) => [key, isTable(value) ? kept(value) : value])
      .filter(([, value]) => value !== null && !isEmpty(value)),
  )

const isTable = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isEmpty = (value: unknown): boolean => typeof value === 'object' && Object.keys(value ?? {}).length === 0
