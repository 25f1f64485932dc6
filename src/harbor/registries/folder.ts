import { stat } from 'node:fs/promises'
import { resolve as absolute, join } from 'node:path'
import type { Digest } from '../../platform/blobs/blob.ts'
import { datasetDigest } from '../digest.ts'
import { inFolder } from '../folder-source.ts'
import { pack } from '../pack.ts'
import { FolderInvalid, filesOf, isFile, listDataset, resolvedTask } from './folder-dataset.ts'
import { inside } from './inside.ts'
import { LATEST, type Ref, type Reference, refText } from './reference.ts'
import {
  type Registry,
  RegistryUnavailable,
  type Resolution,
  type ResolvedDataset,
  registryLabel,
  TASKS_MAX,
  TaskMissing,
} from './registry.ts'
import { doubled, inOrder } from './task-names.ts'

export type FolderRegistryOptions = {
  name: string
  /** `<folder>/<org>/<dataset>/`: a dataset.toml, or just the folders of the tasks. */
  folder: string
  /** Where manifests may point to: this folder and what is in it. */
  within?: string
}

/**
 * A folder of datasets. Each has one version, the one that lies there: `latest`, the version of its dataset.toml and
 * its digest name it, and nothing else does. There are no revisions.
 */
export function folderRegistry({ name, ...options }: FolderRegistryOptions): Registry {
  const folder = absolute(options.folder)
  const root = options.within === undefined ? folder : absolute(options.within)
  return {
    name,
    async resolve(reference, { tasksMax = TASKS_MAX }) {
      await expectFolder(folder, name)
      const dataset = await inside(folder, join(reference.org, reference.name))
      if (dataset === undefined || !(await isFolder(dataset))) return { kind: 'unknown' }
      return resolve({ folder: join(folder, reference.org, reference.name), root, registry: name, tasksMax }, reference)
    },
    async open() {
      await expectFolder(folder, name)
      return {
        async fetch({ at }) {
          if (at.kind !== 'folder') throw new Error('This task was not resolved by a folder.')
          const task = await inside(root, at.path)
          if (task === undefined) throw new TaskMissing('Its folder is no longer there.')
          return pack(await inFolder(task))
        },
        [Symbol.asyncDispose]: async () => undefined,
      }
    },
  }
}

const isFolder = async (path: string): Promise<boolean> =>
  (await stat(path).catch(() => undefined))?.isDirectory() ?? false

async function expectFolder(folder: string, name: string): Promise<void> {
  if (await isFolder(folder)) return
  throw new RegistryUnavailable(`The folder of a ${registryLabel(name)} in ASSAY_REGISTRIES does not exist.`, {
    isLasting: true,
  })
}

type Wish = { folder: string; root: string; registry: string; tasksMax: number }

async function resolve(wish: Wish, reference: Reference): Promise<Resolution> {
  try {
    return await resolveValid(wish, reference)
  } catch (error) {
    if (error instanceof FolderInvalid) return { kind: 'invalid', detail: error.message }
    throw error
  }
}

async function resolveValid({ folder, root, registry, tasksMax }: Wish, reference: Reference): Promise<Resolution> {
  if (await isFile(join(folder, 'task.toml'))) return { kind: 'not_a_dataset' }
  const { org, name, ref } = reference
  const { version, description, listed, manifest } = await listDataset(folder, org, name)
  if (ref.kind !== 'digest' && !isNamed(ref, version)) return onlyVersion(registry, version)
  if (listed.length === 0) return { kind: 'empty' }
  if (listed.length > tasksMax) return { kind: 'too_many', count: listed.length }

  const tasks: Awaited<ReturnType<typeof resolvedTask>>[] = []
  for (const each of listed) tasks.push(await resolvedTask(root, each))
  tasks.sort(inOrder)
  const twice = doubled(tasks)
  if (twice) return { kind: 'invalid', detail: `${twice} is in it twice.` }
  const files = await filesOf(folder, manifest)
  const digest: Digest = datasetDigest(
    tasks.map((task) => task.digest),
    files,
  )
  if (ref.kind === 'digest' && ref.digest !== digest) return onlyVersion(registry, version)
  const resolvedRef = version ?? digest
  const dataset: ResolvedDataset = {
    ...{ registry, org, name, ref: refText(ref), resolvedRef, revision: null },
    ...{ description, digest, tasks, files },
  }
  return { kind: 'found', dataset }
}

const isNamed = (ref: Ref, version: string | undefined): boolean => [LATEST, version].includes(refText(ref))

const onlyVersion = (registry: string, version = LATEST): Resolution => ({
  ...{ kind: 'other_versions', registry, versions: [version] },
})
