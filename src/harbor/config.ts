import { type EnvironmentConfig, readEnvironment } from './environment-config.ts'
import { type Fields, readTable } from './fields.ts'
import { createReport, type Report } from './report.ts'
import { isKnownSchema, NEWEST_SCHEMA, resolveDefaults } from './schema-versions.ts'
import { readEnv } from './settings.ts'
import {
  type AgentConfig,
  readAgent,
  readArtifacts,
  readSteps,
  readVerifier,
  type StepConfig,
  type VerifierConfig,
} from './step-config.ts'
import type { EnvVar, Network, PackageInfo, Task, TaskArtifact, TaskJson } from './task.ts'
import { parseToml, TOML_DIALECT } from './toml-table.ts'

/** Content of task.toml, with the keys of every schema version translated to those of the newest. */
export type TaskConfig = {
  package: PackageInfo | null
  source: string | null
  metadata: Task['metadata']
  rewardStrategy: Task['rewardStrategy'] | null
  agent: AgentConfig
  verifier: VerifierConfig
  environment: EnvironmentConfig
  solutionEnv: EnvVar[]
  artifacts: TaskArtifact[]
  steps: StepConfig[]
}

export const CONFIG_FILE = 'task.toml'

export function readConfig(table: { [key: string]: TaskJson }, report: Report): TaskConfig {
  return readTable(table, { path: '', report, dialect: TOML_DIALECT }, (fields) => {
    const defaults = resolveDefaults(readSchemaVersion(fields))
    return {
      package: fields.table('task', readPackage) ?? null,
      source: fields.text('source') ?? null,
      metadata: readMetadata(fields, table.metadata),
      rewardStrategy: fields.oneOf('multi_step_reward_strategy', ['mean', 'final']) ?? null,
      agent: fields.section('agent', (inner) => readAgent(inner, defaults.agentTimeoutSec)),
      verifier: fields.section('verifier', (inner) => readVerifier(inner, defaults)),
      environment: fields.section('environment', (inner) => readEnvironment(inner, defaults)),
      solutionEnv: fields.section('solution', (inner) => readEnv(inner, 'env')),
      artifacts: readArtifacts(fields),
      steps: readSteps(fields, defaults),
    }
  })
}

/** Reads the schema version. Before 1.1 the key was `version`. */
function readSchemaVersion(fields: Fields): string {
  const deprecatedVersion = fields.text('version')
  const version = fields.text('schema_version') ?? deprecatedVersion ?? NEWEST_SCHEMA
  if (deprecatedVersion !== undefined)
    fields.warn('version', 'deprecated_key', 'Deprecated. Use schema_version instead.')
  if (!isKnownSchema(version)) {
    fields.warn(
      'schema_version',
      'unknown_schema',
      `Unknown schema version. The task is read as schema ${NEWEST_SCHEMA}, the newest known.`,
    )
  }
  return version
}

function readMetadata(fields: Fields, metadata: TaskJson | undefined): Task['metadata'] {
  if (!fields.has('metadata') || metadata === undefined) return {}
  if (typeof metadata === 'object' && !Array.isArray(metadata)) return metadata
  fields.refuse('metadata', 'wrong_type', 'Must be a table.')
  return {}
}

const NAME = /^[a-zA-Z0-9][a-zA-Z0-9._-]*\/[a-zA-Z0-9][a-zA-Z0-9._-]*$/
const NAME_LENGTH_MAX = 200

/** Reads `[task]`, the identity of the task in a registry. */
function readPackage(fields: Fields): PackageInfo {
  const name = fields.requiredText('name')
  if (!isPackageName(name)) fields.refuse('name', 'invalid_value', 'Must be a name such as org/name.')
  const version = fields.text('version') ?? null
  if (version === '') fields.refuse('version', 'invalid_value', 'Must not be empty.')
  return {
    name,
    version,
    description: fields.text('description') ?? '',
    authors: fields.tables('authors', readAuthor) ?? [],
    keywords: fields.texts('keywords') ?? [],
  }
}

const isPackageName = (name: string): boolean =>
  name.length <= NAME_LENGTH_MAX && NAME.test(name) && !name.includes('..')

const readAuthor = (fields: Fields): PackageInfo['authors'][number] => ({
  name: fields.requiredText('name'),
  email: fields.text('email') ?? null,
})

/** Returns the networks that a `task.toml` declares for the agent, one per step, or undefined if it is invalid TOML. */
export function readAgentNetworks(text: string): Network[] | undefined {
  const report = createReport()
  const table = parseToml(text, CONFIG_FILE, report)
  const config = table && readConfig(table, report)
  if (!config) return undefined
  const inherited = config.agent.network ?? config.environment.network
  return config.steps.length === 0 ? [inherited] : config.steps.map(({ agent }) => agent.network ?? inherited)
}
