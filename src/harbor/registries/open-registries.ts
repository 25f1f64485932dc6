import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Outbound } from '../../platform/outbound/outbound.ts'
import { folderRegistry } from './folder.ts'
import type { GitLog } from './git.ts'
import { inTheirOrder } from './in-order.ts'
import { packageRegistry } from './package-registry.ts'
import type { Registry } from './registry.ts'
import { registryJson } from './registry-json.ts'

export type RegistrySettings = {
  /** As in ASSAY_REGISTRIES, in order. */
  places: string[]
  harborUrl: string
  harborPublicKey: string
}

/** `harbor`, `samples`, `dir:PATH`, or the URL or path of a registry.json. */
export const isRegistryPlace = (text: string): boolean =>
  /^(harbor|samples|dir:.+|https?:\/\/[^\s/]+\/\S+|[^\s:]+\.json)$/.test(text)

const SAMPLES = fileURLToPath(new URL('../../../samples/', import.meta.url))

type RegistryDeps = { outbound: Outbound; scratch: string; log?: GitLog | undefined }

export function openRegistries(settings: RegistrySettings, tools: RegistryDeps): Registry {
  return inTheirOrder(settings.places.map((place) => openOne(place, settings, tools)))
}

function openOne(
  name: string,
  { harborUrl: url, harborPublicKey: publicKey }: RegistrySettings,
  { outbound, scratch, log }: RegistryDeps,
): Registry {
  if (name === 'harbor') return packageRegistry({ name, outbound, url, publicKey })
  if (name === 'samples') return folderRegistry({ name, folder: join(SAMPLES, 'registry'), within: SAMPLES })
  if (name.startsWith('dir:')) return folderRegistry({ name, folder: resolve(name.slice('dir:'.length)) })
  return registryJson({ name, location: name, outbound, scratch, log })
}
