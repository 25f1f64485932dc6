import type { Fields } from './fields.ts'
import { readMcpServer } from './mcp-server.ts'
import { readBaselineNetwork } from './network.ts'
import type { Defaults } from './schema-versions.ts'
import { readEnv, readHealthcheck, readTimeout } from './settings.ts'
import type { Environment, Resources } from './task.ts'

/** `[environment]` as it is written. Files of the task decide about the rest. */
export type EnvironmentConfig = Omit<Environment, 'os' | 'folder' | 'dockerfile' | 'compose'> & {
  os: Environment['os'] | null
}

export const readEnvironment = (fields: Fields, { resources }: Defaults): EnvironmentConfig => ({
  os: readOs(fields),
  image: readImage(fields),
  buildTimeoutSec: readTimeout(fields, 'build_timeout_sec') ?? 600,
  resources: readResources(fields, resources),
  network: readBaselineNetwork(fields),
  env: readEnv(fields, 'env'),
  mcpServers: fields.tables('mcp_servers', readMcpServer) ?? [],
  skillsDir: fields.text('skills_dir') ?? null,
  healthcheck: fields.table('healthcheck', readHealthcheck) ?? null,
  workdir: fields.text('workdir') || null,
})

const readResources = (fields: Fields, unsaid: Resources): Resources => ({
  cpus: fields.number('cpus', { above: 0, max: 1e6 }) ?? unsaid.cpus,
  memoryMb: readMegabytes(fields, 'memory_mb', 'memory') ?? unsaid.memoryMb,
  storageMb: readMegabytes(fields, 'storage_mb', 'storage') ?? unsaid.storageMb,
  gpus: fields.number('gpus', { min: 0, max: 1e6, integer: true }) ?? unsaid.gpus,
  gpuTypes: readGpuTypes(fields),
  tpu: fields.table('tpu', readTpu) ?? null,
})

/** None named: any will do. */
function readGpuTypes(fields: Fields): string[] | null {
  const types = fields.texts('gpu_types') ?? []
  return types.length > 0 ? types : null
}

function readOs(fields: Fields): Environment['os'] | null {
  const os = fields.text('os')?.toLowerCase()
  if (os === undefined || os === 'linux' || os === 'windows') return os ?? null
  fields.refuse('os', 'invalid_value', 'One of linux, windows is expected here.')
  return null
}

/** An image is named on command lines: what looks like an option is none. */
const IMAGE = /^[A-Za-z0-9][\w.\-/:@+]{0,499}$/

function readImage(fields: Fields): string | null {
  const image = fields.text('docker_image') || null
  if (image !== null && !IMAGE.test(image)) fields.refuse('docker_image', 'invalid_value', 'This names no image.')
  return image
}

const MEGABYTES: Record<string, number> = { G: 1024, M: 1, K: 1 / 1024 }
const SIZE = /^(\d{1,12}(?:\.\d{1,6})?)([GMK])$/

/** `memory = "2G"` is how it was said before `memory_mb`. */
function readMegabytes(fields: Fields, key: string, oldKey: string): number | undefined {
  const megabytes = fields.number(key, { above: 0, max: 1e12, integer: true })
  const old = fields.value(oldKey)
  if (old === undefined) return megabytes
  fields.warn(oldKey, 'deprecated_key', `Write ${key} instead.`)
  if (typeof old !== 'string') return megabytes // Harbor drops it
  const converted = megabytesIn(old)
  if (converted === undefined) fields.refuse(oldKey, 'invalid_value', 'A size like 512M or 2G is expected here.')
  else if (fields.has(key) && megabytes !== converted) {
    fields.refuse(oldKey, 'conflict', `This is ${converted} MB, and ${key} says something else.`)
  }
  return converted ?? megabytes
}

function megabytesIn(text: string): number | undefined {
  const [, amount, unit = ''] = SIZE.exec(text.trim().toUpperCase()) ?? []
  const factor = MEGABYTES[unit]
  return amount && factor ? Math.trunc(Number(amount) * factor) || undefined : undefined
}

function readTpu(fields: Fields): Resources['tpu'] {
  const type = fields.requiredText('type')
  const topology = fields.requiredText('topology').trim()
  if (type === '') fields.refuse('type', 'invalid_value', 'The type of a TPU is expected here.')
  if (!/^[1-9]\d{0,5}(x[1-9]\d{0,5}){1,5}$/.test(topology)) {
    fields.refuse('topology', 'invalid_value', 'Dimensions like 2x4 or 2x2x1 are expected here.')
  }
  return { type, topology }
}
