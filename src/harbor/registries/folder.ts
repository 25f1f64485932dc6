import { stat } from 'node:fs/promises'
import { resolve as absolute, join } from 'node:path'
import type { Digest } from '../../platform/blobs/blob.ts'
import { computeDatasetDigest } from '../digest.ts'
import { openFolderSource } from '../folder-source.ts'
import { packTask } from '../pack.ts'
import { FolderInvalid, hashManifestFiles, isFile, listDataset, resolveFolderTask } from './folder-dataset.ts'
import { resolveInside } from './inside.ts'
import { type DatasetRef, type DatasetReference, formatRef, LATEST } from './reference.ts'
import {
  compareTaskNames,
  describeRegistry,
  findDuplicateName,
  type Registry,
  RegistryUnavailable,
  type Resolution,
  type ResolvedDataset,
  TASKS_MAX,
  TaskMissing,
} from './registry.ts'

export type FolderRegistryOptions = {
  name: string
  /** Contains `<org>/<dataset>/`, each with a dataset.toml or just the folders of its tasks. */
  folder: string
  /** Folder that manifests may refer to; by default `folder`. */
  within?: string
}

/**
 * Opens a folder of datasets as a registry. Each dataset has one version, referenced as `latest`, by the version in its
 * dataset.toml or by its digest. There are no revisions.
 */
export function openFolderRegistry({ name, ...options }: FolderRegistryOptions): Registry {
  const folder = absolute(options.folder)
  const root = options.within === undefined ? folder : absolute(options.within)
  return {
    name,
    async resolve(reference, { tasksMax = TASKS_MAX }) {
      await requireFolder(folder, name)
      const dataset = await resolveInside(folder, join(reference.org, reference.name))
      if (dataset === undefined || !(await isFolder(dataset))) return { kind: 'unknown' }
      return resolve({ folder: join(folder, reference.org, reference.name), root, registry: name, tasksMax }, reference)
    },
    async open() {
      await requireFolder(folder, name)
      return {
        async fetch({ at }) {
          if (at.kind !== 'folder') throw new Error('The task was not resolved by a folder registry.')
          const task = await resolveInside(root, at.path)
          if (task === undefined) throw new TaskMissing('The folder of the task does not exist any longer.')
          return packTask(await openFolderSource(task))
        },
        [Symbol.asyncDispose]: async () => undefined,
      }
    },
  }
}

const isFolder = async (path: string): Promise<boolean> =>
  (await stat(path).catch(() => undefined))?.isDirectory() ?? false

async function requireFolder(folder: string, name: string): Promise<void> {
  if (await isFolder(folder)) return
  throw new RegistryUnavailable(`The folder of a ${describeRegistry(name)} in ASSAY_REGISTRIES does not exist.`, {
    isLasting: true,
  })
}

type FolderResolveContext = { folder: string; root: string; registry: string; tasksMax: number }

async function resolve(context: FolderResolveContext, reference: DatasetReference): Promise<Resolution> {
  try {
    return await resolveValid(context, reference)
  } catch (error) {
    if (error instanceof FolderInvalid) return { kind: 'invalid', detail: error.message }
    throw error
  }
}

async function resolveValid(
  { folder, root, registry, tasksMax }: FolderResolveContext,
  reference: DatasetReference,
): Promise<Resolution> {
  if (await isFile(join(folder, 'task.toml'))) return { kind: 'not_a_dataset' }
  const { org, name, ref } = reference
  const { version, description, listed, manifest } = await listDataset(folder, org, name)
  if (ref.kind !== 'digest' && !matchesVersion(ref, version)) return refuseVersion(registry, version)
  if (listed.length === 0) return { kind: 'empty' }
  if (listed.length > tasksMax) return { kind: 'too_many', count: listed.length }

  const tasks: Awaited<ReturnType<typeof resolveFolderTask>>[] = []
  for (const each of listed) tasks.push(await resolveFolderTask(root, each))
  tasks.sort(compareTaskNames)
  const duplicate = findDuplicateName(tasks)
  if (duplicate) return { kind: 'invalid', detail: `Duplicate task ${duplicate}.` }
  const files = await hashManifestFiles(folder, manifest)
  const digest: Digest = computeDatasetDigest(
    tasks.map((task) => task.digest),
    files,
  )
  if (ref.kind === 'digest' && ref.digest !== digest) return refuseVersion(registry, version)
  const resolvedRef = version ?? digest
  const dataset: ResolvedDataset = {
    registry,
    org,
    name,
    ref: formatRef(ref),
    resolvedRef,
    revision: null,
    description,
    digest,
    tasks,
    files,
  }
  return { kind: 'found', dataset }
}

const matchesVersion = (ref: DatasetRef, version: string | undefined): boolean =>
  [LATEST, version].includes(formatRef(ref))

const refuseVersion = (registry: string, version = LATEST): Resolution => ({
  kind: 'other_versions',
  registry,
  versions: [version],
})
