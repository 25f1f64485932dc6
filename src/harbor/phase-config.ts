import { type EnvironmentConfig, readEnvironment } from './environment-config.ts'
import type { Fields } from './fields.ts'
import { readPhaseNetwork } from './network.ts'
import type { SchemaDefaults } from './schema-versions.ts'
import { readCollectHook, readEnv, readTimeout, readUser } from './settings.ts'
import type { Agent, CollectHook, EnvVar, Network, User } from './task.ts'

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
  timeoutSec: readTimeout(fields, 'timeout_sec') ?? timeoutSec,
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
    timeoutSec: readTimeout(fields, 'timeout_sec') ?? 600,
    user: readUser(fields),
    env: readEnv(fields, 'env'),
    network: readPhaseNetwork(fields),
    mode: mode ?? (environment ? 'separate' : null),
    environment,
    collect: fields.tables('collect', readCollectHook) ?? [],
  }
}
