import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Outbound } from '../../platform/outbound/outbound.ts'
import type { GitLog } from './checkouts.ts'
import { openFolderRegistry } from './folder.ts'
import { openPackageRegistry } from './package-registry.ts'
import {
  describeRegistry,
  type Registry,
  RegistryUnavailable,
  type Resolution,
  type ResolvedDataset,
} from './registry.ts'
import { openRegistryJson } from './registry-json.ts'

export type RegistrySettings = {
  /** Entries of ASSAY_REGISTRIES, in order. */
  names: string[]
  harborUrl: string
  harborPublicKey: string
}

/** Accepts `harbor`, `samples`, `dir:PATH`, and the URL or path of a registry.json. */
export const isRegistryName = (text: string): boolean =>
  /^(harbor|samples|dir:.+|https?:\/\/[^\s/]+\/\S+|[^\s:]+\.json)$/.test(text)

const SAMPLES = fileURLToPath(new URL('../../../samples/', import.meta.url))

type RegistryDeps = { outbound: Outbound; scratch: string; log?: GitLog | undefined }

export function openRegistries(settings: RegistrySettings, deps: RegistryDeps): Registry {
  return combineRegistries(settings.names.map((name) => openRegistry(name, settings, deps)))
}

function openRegistry(
  name: string,
  { harborUrl: url, harborPublicKey: publicKey }: RegistrySettings,
  { outbound, scratch, log }: RegistryDeps,
): Registry {
  if (name === 'harbor') return openPackageRegistry({ name, outbound, url, publicKey })
  if (name === 'samples') return openFolderRegistry({ name, folder: join(SAMPLES, 'registry'), within: SAMPLES })
  if (name.startsWith('dir:')) return openFolderRegistry({ name, folder: resolve(name.slice('dir:'.length)) })
  return openRegistryJson({ name, location: name, outbound, scratch, log })
}

/**
 * Combines registries into one, in the operator's order. The first that knows a name decides. An unavailable registry is
 * not skipped, because the next one might have a different dataset of the same name.
 */
function combineRegistries(registries: readonly Registry[]): Registry {
  return {
    name: registries.map(({ name }) => name).join(','),
    async resolve(reference, options) {
      for (const registry of registries) {
        const resolution = await registry.resolve(reference, options).catch((error) => {
          throw addRegistryName(registry, error)
        })
        if (resolution.kind === 'found') return toStorable(resolution.dataset)
        if (resolution.kind !== 'unknown') return resolution
      }
      return { kind: 'unknown' }
    },
    async open(dataset, options) {
      const registry = registries.find(({ name }) => name === dataset.registry)
      if (registry) return registry.open(dataset, options)
      const message = `The dataset comes from a ${describeRegistry(dataset.registry)} that is no longer in ASSAY_REGISTRIES.`
      throw new RegistryUnavailable(message, { isPermanent: true })
    },
  }
}

const DESCRIPTION_LENGTH_MAX = 5000
const VERSION = /^\P{C}{1,200}$/u
/** Matches the JSON escape of NUL or of a lone surrogate, unless its backslash is escaped itself. PostgreSQL stores neither. */
const UNSTORABLE = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/i

/** Refuses untrusted texts of a dataset that cannot be stored, and shortens its description. */
function toStorable(dataset: ResolvedDataset): Resolution {
  if (!VERSION.test(dataset.resolvedRef))
    return {
      kind: 'invalid',
      detail: 'The version of the dataset has more than 200 characters or contains control characters.',
    }
  const description = dataset.description.slice(0, DESCRIPTION_LENGTH_MAX).toWellFormed().replaceAll('\0', '\uFFFD')
  const storable = { ...dataset, description }
  if (UNSTORABLE.test(JSON.stringify(storable)))
    return { kind: 'invalid', detail: 'A path of the dataset contains a NUL character or a lone surrogate.' }
  return { kind: 'found', dataset: storable }
}

/** Adds the label of the registry to an error, since a workspace does not know the configured addresses. */
function addRegistryName({ name }: Registry, error: unknown): unknown {
  if (!(error instanceof RegistryUnavailable) || error.isPermanent) return error
  const { message, retryAfterMs } = error
  return new RegistryUnavailable(`The ${describeRegistry(name)} is unavailable. ${message}`, { retryAfterMs })
}
