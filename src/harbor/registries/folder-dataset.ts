import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Digest } from '../../platform/blobs/blob.ts'
import { taskDigest } from '../digest.ts'
import { inFolder } from '../folder-source.ts'
import { TOML_BYTES_MAX } from '../limits.ts'
import { newReport, shown } from '../report.ts'
import { TaskInvalid } from '../task.ts'
import { hashed, listTaskFiles } from '../task-files.ts'
import { MANIFEST_FILE, type Manifest, readManifest } from './dataset-toml.ts'
import { inside } from './inside.ts'
import { isPart } from './reference.ts'
import type { ResolvedTask } from './registry.ts'

/** Thrown for a folder that somebody has to mend. */
export class FolderInvalid extends Error {
  override name = 'FolderInvalid'
}

/** What the manifest or the folder says, before any file of a task is read. */
type Listed = { org: string; name: string; folder: string; digest: Digest | undefined }
export type FolderDataset = {
  version: string | undefined
  description: string
  listed: Listed[]
  manifest: Manifest | undefined
}

/** With a manifest it is what that lists; without one, every folder in it that has a task.toml. */
export async function listDataset(folder: string, org: string, name: string): Promise<FolderDataset> {
  const manifest = await findManifest(folder)
  if (manifest && manifest.dataset.name !== `${org}/${name}`) {
    throw new FolderInvalid(`${MANIFEST_FILE} is of ${shown(manifest.dataset.name)}.`)
  }
  const listed = manifest?.tasks ? manifest.tasks.map((task) => listedIn(task, folder)) : await foldersIn(folder, org)
  return {
    version: manifest?.dataset.version,
    description: manifest?.dataset.description ?? '',
    listed,
    manifest,
  }
}

function listedIn(task: NonNullable<Manifest['tasks']>[number], folder: string): Listed {
  const [org = '', name = ''] = task.name.split('/')
  return { org, name, folder: join(folder, task.path ?? name), digest: task.digest }
}

async function foldersIn(folder: string, org: string): Promise<Listed[]> {
  const entries = await readdir(folder, { withFileTypes: true })
  const names = entries.filter((entry) => entry.isDirectory() || entry.isSymbolicLink()).map(({ name }) => name)
  const tasks: Listed[] = []
  for (const name of names.filter(isPart)) {
    if (await isFile(join(folder, name, 'task.toml'))) {
      tasks.push({ org, name, folder: join(folder, name), digest: undefined })
    }
  }
  return tasks
}

async function findManifest(folder: string): Promise<Manifest | undefined> {
  const path = join(folder, MANIFEST_FILE)
  if (!(await isFile(path))) return undefined
  if ((await stat(path)).size > TOML_BYTES_MAX) throw new FolderInvalid(`${MANIFEST_FILE} is too large.`)
  const read = readManifest(await readFile(path, 'utf8'))
  if ('refused' in read) throw new FolderInvalid(read.refused)
  return read
}

export const isFile = async (path: string): Promise<boolean> =>
  (await stat(path).catch(() => undefined))?.isFile() ?? false

/** The task with the digest that its files have now. Its place is relative to the root, as it is in all that we store. */
export async function resolvedTask(root: string, listed: Listed): Promise<ResolvedTask & { digest: Digest }> {
  const { org, name } = listed
  const path = relative(root, listed.folder)
  const folder = await inside(root, path)
  if (folder === undefined) throw new FolderInvalid(`${org}/${name} is not in ${shown(path)}.`)
  const digest = await digestOf(folder, `${org}/${name}`)
  if (listed.digest !== undefined && listed.digest !== digest) {
    throw new FolderInvalid(`${org}/${name} should be ${listed.digest}; its files make it ${digest}.`)
  }
  return { org, name, digest, at: { kind: 'folder', path } }
}

async function digestOf(folder: string, task: string): Promise<Digest> {
  const source = await inFolder(folder)
  const report = newReport()
  try {
    const files = await listTaskFiles(source, false, report)
    report.check()
    return taskDigest(await hashed(source, files))
  } catch (error) {
    if (error instanceof TaskInvalid) throw new FolderInvalid(`${task}: ${error.message}`)
    throw error
  }
}

/** The files that the manifest lists beside the tasks, with the digests that they have now. */
export async function filesOf(
  folder: string,
  manifest: Manifest | undefined,
): Promise<{ path: string; digest: Digest }[]> {
  const files: { path: string; digest: Digest }[] = []
  for (const { path, digest } of manifest?.files ?? []) {
    const file = await inside(folder, path)
    if (file === undefined || !(await isFile(file))) throw new FolderInvalid(`There is no file ${shown(path)}.`)
    const hash = createHash('sha256')
    await pipeline(createReadStream(file), hash)
    const found: Digest = `sha256:${hash.digest('hex')}`
    if (digest !== undefined && digest !== found) throw new FolderInvalid(`${shown(path)} should be ${digest}.`)
    files.push({ path, digest: found })
  }
  return files
}
