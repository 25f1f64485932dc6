import { readArtifacts } from './artifact.ts'
import { type EnvironmentConfig, readEnvironment } from './environment-config.ts'
import { type Fields, readTable } from './fields.ts'
import { readPackage } from './package-info.ts'
import { type AgentConfig, readAgent, readVerifier, type VerifierConfig } from './phase-config.ts'
import type { Report } from './report.ts'
import { defaultsOf, isKnownSchema, NEWEST_SCHEMA } from './schema-versions.ts'
import { readEnv } from './settings.ts'
import { readSteps, type StepConfig } from './step-config.ts'
import type { Artifact, EnvVar, Json, PackageInfo, Task } from './task.ts'
import { TOML } from './toml-table.ts'

/** task.toml as it is written, every schema version in the words of the newest. */
export type Config = {
  package: PackageInfo | null
  source: string | null
  metadata: Task['metadata']
  rewardStrategy: Task['rewardStrategy'] | null
  agent: AgentConfig
  verifier: VerifierConfig
  environment: EnvironmentConfig
  solutionEnv: EnvVar[]
  artifacts: Artifact[]
  steps: StepConfig[]
}

export const CONFIG_FILE = 'task.toml'

export function readConfig(table: { [key: string]: Json }, report: Report): Config {
  return readTable(table, { path: '', report, dialect: TOML }, (fields) => {
    const defaults = defaultsOf(readSchemaVersion(fields))
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

/** Before 1.1 it was called `version`. */
function readSchemaVersion(fields: Fields): string {
  const old = fields.text('version')
  const version = fields.text('schema_version') ?? old ?? NEWEST_SCHEMA
  if (old !== undefined) fields.warn('version', 'deprecated_key', 'Write schema_version instead.')
  if (!isKnownSchema(version)) {
    fields.warn('schema_version', 'unknown_schema', `It is read as schema ${NEWEST_SCHEMA}, the newest that we know.`)
  }
  return version
}

function readMetadata(fields: Fields, metadata: Json | undefined): Task['metadata'] {
  if (!fields.has('metadata') || metadata === undefined) return {}
  if (typeof metadata === 'object' && !Array.isArray(metadata)) return metadata
  fields.refuse('metadata', 'wrong_type', 'A table is expected here.')
  return {}
}
