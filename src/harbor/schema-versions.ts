import type { Resources } from './task.ts'

/** What a key that is left out stands for. */
export type Defaults = { agentTimeoutSec: number | null; resources: Resources }

export const NEWEST_SCHEMA = '1.4'

const SMALL: Resources = { cpus: 1, memoryMb: 2048, storageMb: 10_240, gpus: 0, gpuTypes: null, tpu: null }
const OPEN: Resources = { cpus: null, memoryMb: null, storageMb: null, gpus: null, gpuTypes: null, tpu: null }

/**
 * Harbor reads an old task with the defaults of today; so the same task has been run with other limits than its author
 * tried. We take those of the first release that wrote the version: 0.1.2, 0.3.0, 0.6.0, 0.13.0 and 0.21.0.
 */
const BY_VERSION = new Map<string, Defaults>([
  ['1.0', { agentTimeoutSec: 600, resources: SMALL }],
  ['1.1', { agentTimeoutSec: null, resources: SMALL }],
  ['1.2', { agentTimeoutSec: null, resources: SMALL }],
  ['1.3', { agentTimeoutSec: null, resources: OPEN }],
  [NEWEST_SCHEMA, { agentTimeoutSec: null, resources: OPEN }],
])

export const isKnownSchema = (version: string): boolean => BY_VERSION.has(version)

/** Of a version that we do not know, those of the newest: versions have only added keys. */
export const defaultsOf = (version: string): Defaults =>
  BY_VERSION.get(version) ?? { agentTimeoutSec: null, resources: OPEN }
