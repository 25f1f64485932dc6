import type { EnvironmentResources } from './task.ts'

/** Default values of omitted keys. */
export type SchemaDefaults = { agentTimeoutSec: number | null; resources: EnvironmentResources }

export const NEWEST_SCHEMA = '1.4'

const SMALL_RESOURCES: EnvironmentResources = {
  cpus: 1,
  memoryMb: 2048,
  storageMb: 10_240,
  gpus: 0,
  gpuTypes: null,
  tpu: null,
}
const UNDECLARED_RESOURCES: EnvironmentResources = {
  cpus: null,
  memoryMb: null,
  storageMb: null,
  gpus: null,
  gpuTypes: null,
  tpu: null,
}

const NEWEST_DEFAULTS: SchemaDefaults = { agentTimeoutSec: null, resources: UNDECLARED_RESOURCES }

/**
 * Defaults by schema version. Harbor applies today's defaults to old tasks, so a task runs with other limits than its
 * author tested. These are the defaults of the first release that wrote the version: 0.1.2, 0.3.0, 0.6.0, 0.13.0, 0.21.0.
 */
const DEFAULTS_BY_VERSION = new Map<string, SchemaDefaults>([
  ['1.0', { agentTimeoutSec: 600, resources: SMALL_RESOURCES }],
  ['1.1', { agentTimeoutSec: null, resources: SMALL_RESOURCES }],
  ['1.2', { agentTimeoutSec: null, resources: SMALL_RESOURCES }],
  ['1.3', { agentTimeoutSec: null, resources: UNDECLARED_RESOURCES }],
  [NEWEST_SCHEMA, NEWEST_DEFAULTS],
])

export const isKnownSchema = (version: string): boolean => DEFAULTS_BY_VERSION.has(version)

/** Returns the defaults of a schema version. Unknown versions get those of the newest, since versions only add keys. */
export const resolveDefaults = (version: string): SchemaDefaults => DEFAULTS_BY_VERSION.get(version) ?? NEWEST_DEFAULTS
