import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { resolve as absolute, join, relative } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { z } from 'zod'
import { Digest } from '../../platform/blobs/blob.ts'
import { packTask } from '../archive.ts'
import { computeDatasetDigest, computeTaskDigest } from '../digest.ts'
import { openFolderSource, resolveInside } from '../folder-source.ts'
import { TOML_BYTES_MAX } from '../limits.ts'
import { createReport, sanitizeText } from '../report.ts'
import { TaskInvalid } from '../task.ts'
import { hashFiles, listTaskFiles } from '../task-files.ts'
import { parseToml } from '../toml-table.ts'
import {
  compareTaskNames,
  type DatasetRef,
  type DatasetReference,
  describeRegistry,
  findDuplicateName,
  formatRef,
  isNamePart,
  LATEST,
  type Registry,
  RegistryUnavailable,
  type Resolution,
  type ResolvedDataset,
  type ResolvedTask,
  TASKS_MAX,
  TaskMissing,
} from './registry.ts'

type FolderRegistryOptions = {
  name: string
  /** Contains `<org>/<dataset>/`, each with a dataset.toml or just the folders of its tasks. */
  folder: string
  /** Folder that manifests may refer to; by default `folder`. */
  within?: string | undefined
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
      return resolveFolderDataset(
        { folder: join(folder, reference.org, reference.name), root, registry: name, tasksMax },
        reference,
      )
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
    isPermanent: true,
  })
}

type FolderResolveContext = { folder: string; root: string; registry: string; tasksMax: number }

async function resolveFolderDataset(context: FolderResolveContext, reference: DatasetReference): Promise<Resolution> {
  try {
    return await resolveValidDataset(context, reference)
  } catch (error) {
    if (error instanceof FolderInvalid) return { kind: 'invalid', detail: error.message }
    throw error
  }
}

async function resolveValidDataset(
  { folder, root, registry, tasksMax }: FolderResolveContext,
  reference: DatasetReference,
): Promise<Resolution> {
  if (await isFile(join(folder, 'task.toml'))) return { kind: 'not_a_dataset' }
  const { org, name, ref } = reference
  const { version, description, listed, manifest } = await readDataset(folder, org, name)
  if (ref.kind !== 'digest' && !matchesVersion(ref, version)) return toOtherVersion(registry, version)
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
  if (ref.kind === 'digest' && ref.digest !== digest) return toOtherVersion(registry, version)
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

const toOtherVersion = (registry: string, version = LATEST): Resolution => ({
  kind: 'other_versions',
  registry,
  versions: [version],
})

/** Thrown for an invalid dataset folder, which its owner has to fix. */
class FolderInvalid extends Error {
  override name = 'FolderInvalid'
}

/** A task as listed by the manifest or the folder. Its files have not been read. */
type FolderTask = { org: string; name: string; folder: string; digest: Digest | undefined }
type FolderDataset = {
  version: string | undefined
  description: string
  listed: FolderTask[]
  manifest: DatasetManifest | undefined
}

/** Lists the tasks of the manifest, or without one, all folders that contain a task.toml. */
async function readDataset(folder: string, org: string, name: string): Promise<FolderDataset> {
  const manifest = await findManifest(folder)
  if (manifest && manifest.dataset.name !== `${org}/${name}`) {
    throw new FolderInvalid(`${MANIFEST_FILE} belongs to ${sanitizeText(manifest.dataset.name)}.`)
  }
  const listed = manifest?.tasks
    ? manifest.tasks.map((task) => toFolderTask(task, folder))
    : await listFolderTasks(folder, org)
  return {
    version: manifest?.dataset.version,
    description: manifest?.dataset.description ?? '',
    listed,
    manifest,
  }
}

function toFolderTask(task: NonNullable<DatasetManifest['tasks']>[number], folder: string): FolderTask {
  const [org = '', name = ''] = task.name.split('/')
  return { org, name, folder: join(folder, task.path ?? name), digest: task.digest }
}

async function listFolderTasks(folder: string, org: string): Promise<FolderTask[]> {
  const entries = await readdir(folder, { withFileTypes: true })
  const names = entries.filter((entry) => entry.isDirectory() || entry.isSymbolicLink()).map(({ name }) => name)
  const tasks: FolderTask[] = []
  for (const name of names.filter(isNamePart)) {
    if (await isFile(join(folder, name, 'task.toml'))) {
      tasks.push({ org, name, folder: join(folder, name), digest: undefined })
    }
  }
  return tasks
}

async function findManifest(folder: string): Promise<DatasetManifest | undefined> {
  const path = join(folder, MANIFEST_FILE)
  if (!(await isFile(path))) return undefined
  if ((await stat(path)).size > TOML_BYTES_MAX) throw new FolderInvalid(`${MANIFEST_FILE} is too large.`)
  const manifest = parseManifest(await readFile(path, 'utf8'))
  if ('refused' in manifest) throw new FolderInvalid(manifest.refused)
  return manifest
}

const isFile = async (path: string): Promise<boolean> => (await stat(path).catch(() => undefined))?.isFile() ?? false

/** Computes the current digest of a task. Its location is stored relative to the root. */
async function resolveFolderTask(root: string, listed: FolderTask): Promise<ResolvedTask & { digest: Digest }> {
  const { org, name } = listed
  const path = relative(root, listed.folder)
  const folder = await resolveInside(root, path)
  if (folder === undefined)
    throw new FolderInvalid(
      `The folder ${sanitizeText(path)} of ${org}/${name} does not exist or is outside the registry.`,
    )
  const digest = await computeFolderDigest(folder, `${org}/${name}`)
  if (listed.digest !== undefined && listed.digest !== digest) {
    throw new FolderInvalid(`Digest mismatch of ${org}/${name}: expected ${listed.digest}, computed ${digest}.`)
  }
  return { org, name, digest, at: { kind: 'folder', path } }
}

async function computeFolderDigest(folder: string, task: string): Promise<Digest> {
  const source = await openFolderSource(folder)
  const report = createReport()
  try {
    const files = await listTaskFiles(source, report)
    report.throwIfRefused()
    return computeTaskDigest(await hashFiles(source, files))
  } catch (error) {
    if (error instanceof TaskInvalid) throw new FolderInvalid(`${task}: ${error.message}`)
    throw error
  }
}

/** Returns the additional files of the manifest with their current digests. */
async function hashManifestFiles(
  folder: string,
  manifest: DatasetManifest | undefined,
): Promise<{ path: string; digest: Digest }[]> {
  const files: { path: string; digest: Digest }[] = []
  for (const { path, digest } of manifest?.files ?? []) {
    const file = await resolveInside(folder, path)
    if (file === undefined || !(await isFile(file))) throw new FolderInvalid(`File not found: ${sanitizeText(path)}.`)
    const hash = createHash('sha256')
    await pipeline(createReadStream(file), hash)
    const computed: Digest = `sha256:${hash.digest('hex')}`
    if (digest !== undefined && digest !== computed)
      throw new FolderInvalid(`Digest mismatch of ${sanitizeText(path)}: expected ${digest}.`)
    files.push({ path, digest: computed })
  }
  return files
}

const MANIFEST_FILE = 'dataset.toml'

const Name = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]*\/[A-Za-z0-9][A-Za-z0-9._-]*$/, 'must be org/name')

/** Content of Harbor's dataset.toml. `path` is our extension: the folder of a task, by default the name of the task. */
const Manifest = z.object({
  dataset: z.object({ name: Name, version: z.string().min(1).optional(), description: z.string().default('') }),
  tasks: z.array(z.object({ name: Name, digest: Digest.optional(), path: z.string().optional() })).optional(),
  files: z
    .array(z.object({ path: z.string().regex(/^[^/\\]+$/, 'must be a file name'), digest: Digest.optional() }))
    .default([]),
})
type DatasetManifest = z.infer<typeof Manifest>

function parseManifest(text: string): DatasetManifest | { refused: string } {
  const report = createReport()
  const table = parseToml(text, MANIFEST_FILE, report)
  if (!table) return { refused: `${MANIFEST_FILE}: ${report.refusals[0]?.message ?? ''}` }
  const parsed = Manifest.safeParse(table)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  return { refused: sanitizeText(`${MANIFEST_FILE}: ${issue?.path.join('.')} ${issue?.message}.`) }
}
