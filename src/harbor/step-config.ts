import { type EnvironmentConfig, readEnvironment, readPhaseNetwork } from './environment-config.ts'
import { type Fields, isTable } from './fields.ts'
import type { SchemaDefaults } from './schema-versions.ts'
import {
  MAIN_SERVICE,
  readCollectHook,
  readEnv,
  readHealthcheck,
  readServiceName,
  readTimeoutSec,
  readUser,
} from './settings.ts'
import type { Agent, CollectHook, EnvVar, Healthcheck, Network, TaskArtifact, TaskStep, User } from './task.ts'

export type StepConfig = {
  name: string
  agent: AgentConfig
  verifier: VerifierConfig
  healthcheck: Healthcheck | null
  artifacts: TaskArtifact[]
  minReward: TaskStep['minReward']
}

const STEPS_MAX = 50

/** Reads `[[steps]]`. An empty list means a single-step task. */
export function readSteps(fields: Fields, defaults: SchemaDefaults): StepConfig[] {
  const earlierNames = new Set<string>()
  const read = (inner: Fields): StepConfig => {
    const step = readStep(inner, defaults)
    // Upper case comes first: it makes ß and ss equal.
    const key = step.name.normalize('NFC').toUpperCase().toLowerCase()
    if (earlierNames.has(key))
      inner.refuse('name', 'duplicate', 'Another step has this name, or one that differs only in case.')
    earlierNames.add(key)
    return step
  }
  const steps = fields.tables('steps', read) ?? []
  if (steps.length > STEPS_MAX) fields.refuse('steps', 'too_many', `The limit is ${STEPS_MAX} steps.`)
  return steps.slice(0, STEPS_MAX)
}

function readStep(fields: Fields, defaults: SchemaDefaults): StepConfig {
  const name = fields.requiredText('name')
  if (!isStepName(name))
    fields.refuse('name', 'invalid_value', 'The name is not a valid folder name on every operating system.')
  return {
    name,
    agent: fields.section('agent', (inner) => readAgent(inner, null)),
    verifier: fields.section('verifier', (inner) => readVerifier(inner, defaults)),
    healthcheck: fields.table('healthcheck', readHealthcheck) ?? null,
    artifacts: readArtifacts(fields),
    minReward: readMinReward(fields),
  }
}

const RESERVED = /[<>:"/\\|?*\p{Cc}]/u
const DEVICE = /^(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[1-9¹²³])$/i
const NAME_BYTES_MAX = 255

/** Returns true if a name is a valid folder name on every operating system. */
function isStepName(name: string): boolean {
  const [stem = ''] = name.split('.')
  if (name.trim() === '' || name === '.' || name === '..' || /[. ]$/.test(name)) return false
  return !RESERVED.test(name) && !DEVICE.test(stem.trimEnd()) && Buffer.byteLength(name) <= NAME_BYTES_MAX
}

/** Reads `min_reward`. A plain number applies to the reward called `reward`. */
function readMinReward(fields: Fields): TaskStep['minReward'] {
  if (!isTable(fields.value('min_reward'))) {
    const atLeast = fields.number('min_reward')
    return atLeast === undefined ? [] : [{ key: 'reward', atLeast }]
  }
  const read = (inner: Fields) => inner.keys().map((key) => ({ key, atLeast: inner.number(key) ?? 0 }))
  return fields.table('min_reward', read) ?? []
}

/** Reads `artifacts`: each is a path or a table. */
export const readArtifacts = (fields: Fields): TaskArtifact[] =>
  fields.list('artifacts', (value, path) =>
    fields.entryTable(typeof value === 'string' ? { source: value } : value, path, readArtifact),
  ) ?? []

function readArtifact(fields: Fields): TaskArtifact {
  const source = fields.requiredText('source')
  const service = readServiceName(fields)
  if (hasParent(source)) fields.refuse('source', 'invalid_value', 'The path must not contain "..".')
  if (service !== MAIN_SERVICE && !isAbsolute(source)) {
    fields.refuse('source', 'invalid_value', 'The path must be absolute for a service other than main.')
  }
  return { source, destination: readDestination(fields), exclude: fields.texts('exclude') ?? [], service }
}

/** Reads the path under which the artifact is stored in the folder of the trial. */
function readDestination(fields: Fields): string | null {
  const destination = fields.text('destination') || null
  const problem = destination === null ? undefined : checkDestination(destination)
  if (problem) fields.refuse('destination', 'invalid_value', problem)
  return destination
}

function checkDestination(path: string): string | undefined {
  if (path.includes('\\')) return 'The path must use forward slashes.'
  if (path.startsWith('/')) return 'The path must be relative.'
  if (splitPath(path).length === 0) return 'The path must name a file or a folder.'
  if (hasParent(path)) return 'The path must not contain "..".'
  return splitPath(path).join('/') === 'manifest.json'
    ? 'manifest.json is reserved for the list of artifacts.'
    : undefined
}

const splitPath = (path: string): string[] => path.split('/').filter((part) => part !== '' && part !== '.')

const hasParent = (path: string): boolean => splitPath(path).includes('..')

const isAbsolute = (path: string): boolean => path.startsWith('/') || /^[A-Za-z]:[/\\]/.test(path)

/** Content of `[agent]`. A null network means that of the environment. */
export type AgentConfig = Omit<Agent, 'network'> & { network: Network | null }

export type VerifierConfig = {
  timeoutSec: number
  user: User
  env: EnvVar[]
  network: Network | null
  mode: 'shared' | 'separate' | null
  environment: EnvironmentConfig | null
  collect: CollectHook[]
}

export const readAgent = (fields: Fields, timeoutSec: number | null): AgentConfig => ({
  timeoutSec: readTimeoutSec(fields, 'timeout_sec') ?? timeoutSec,
  user: readUser(fields),
  network: readPhaseNetwork(fields),
})

export function readVerifier(fields: Fields, defaults: SchemaDefaults): VerifierConfig {
  const mode = fields.oneOf('environment_mode', ['shared', 'separate']) ?? null
  const environment = fields.table('environment', (inner) => readEnvironment(inner, defaults)) ?? null
  if (mode === 'shared' && environment) {
    fields.refuse('environment', 'conflict', 'A shared verifier must not have its own environment.')
  }
  return {
    timeoutSec: readTimeoutSec(fields, 'timeout_sec') ?? 600,
    user: readUser(fields),
    env: readEnv(fields, 'env'),
    network: readPhaseNetwork(fields),
    mode: mode ?? (environment ? 'separate' : null),
    environment,
    collect: fields.tables('collect', readCollectHook) ?? [],
  }
}
