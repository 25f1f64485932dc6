// The tables of the package registry and their visibility rules.
import { randomUUID } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { packTask } from '../../src/harbor/archive.ts'
import { computeDatasetDigest } from '../../src/harbor/digest.ts'
import { readTask } from '../../src/harbor/read-task.ts'
import { createMemorySource, type MemoryFile } from '../../src/harbor/source.ts'
import { type Digest, hexOf } from '../../src/platform/blobs/blob.ts'

export type Package = {
  id: string
  type: 'task' | 'dataset'
  org: string
  name: string
  visibility: 'public' | 'private'
}
type VersionRow = { id: string; package: Package; revision: number; content_hash: string; yanked_at: string | null }
export type TaskVersionRow = VersionRow & { archive_path: string }
export type DatasetVersionRow = VersionRow & {
  description: string
  yanked_reason: string | null
  tags: string[]
  tasks: TaskVersionRow[]
  files: { id: string; path: string; storage_path: string; content_hash: string; size_bytes: number }[]
}
/** Organisations whose private packages the caller can see. */
export type RegistryCaller = { orgs: string[] }

export type PublishTaskInput = {
  name: string
  files?: Iterable<readonly [string, MemoryFile]>
  isPrivate?: boolean
  isYanked?: boolean
}
export type PublishDatasetInput = {
  name: string
  tasks: TaskVersionRow[]
  tags?: string[]
  files?: { path: string; digest: Digest }[]
  isPrivate?: boolean
  yankedReason?: string
  /** A false digest that the registry reports. */
  digest?: Digest
}

export type Rows = ReturnType<typeof newRows>

export function newRows() {
  const packages = new Map<string, Package>()
  const taskVersions: TaskVersionRow[] = []
  const datasetVersions: DatasetVersionRow[] = []
  const objects = new Map<string, Buffer>()

  function packageNamed(slug: string, type: Package['type'], isPrivate: boolean): Package {
    const [org = '', name = ''] = slug.split('/')
    const known = packages.get(slug) ?? { id: randomUUID(), type, org, name, visibility: 'public' }
    known.visibility = isPrivate ? 'private' : 'public'
    packages.set(slug, known)
    return known
  }

  function addTask(slug: string, digest: Digest, { isPrivate = false, isYanked = false } = {}): TaskVersionRow {
    const owner = packageNamed(slug, 'task', isPrivate)
    const version = {
      id: randomUUID(),
      package: owner,
      revision: taskVersions.filter((each) => each.package === owner).length + 1,
      content_hash: hexOf(digest),
      archive_path: `packages/${slug}/${hexOf(digest)}/dist.tar.gz`,
      yanked_at: isYanked ? new Date(0).toISOString() : null,
    }
    taskVersions.push(version)
    return version
  }

  return {
    packages,
    taskVersions,
    datasetVersions,
    objects,
    addTask,
    async publishTask({ name, files = smallTask(name), ...rest }: PublishTaskInput): Promise<TaskVersionRow> {
      const source = createMemorySource(name, files)
      const version = addTask(name, (await readTask(source)).digest, rest)
      objects.set(version.archive_path, await buffer(await packTask(source)))
      return version
    },
    publishDataset({
      name,
      tasks,
      tags = [],
      files = [],
      isPrivate = false,
      ...options
    }: PublishDatasetInput): DatasetVersionRow {
      const owner = packageNamed(name, 'dataset', isPrivate)
      const before = datasetVersions.filter((each) => each.package === owner)
      for (const each of before) each.tags = each.tags.filter((tag) => tag !== 'latest' && !tags.includes(tag))
      const digests = tasks.map((task): Digest => `sha256:${task.content_hash}`)
      const version: DatasetVersionRow = {
        id: randomUUID(),
        package: owner,
        revision: before.length + 1,
        content_hash: hexOf(options.digest ?? computeDatasetDigest(digests, files)),
        description: `All about ${name}.`,
        yanked_at: options.yankedReason === undefined ? null : new Date(0).toISOString(),
        yanked_reason: options.yankedReason ?? null,
        tags: ['latest', ...tags],
        tasks,
        files: files.map(({ path, digest }) => ({
          id: randomUUID(),
          path,
          storage_path: `packages/${name}/${path}`,
          content_hash: hexOf(digest),
          size_bytes: 1,
        })),
      }
      datasetVersions.push(version)
      return version
    },
  }
}

export const isVisible = ({ visibility, org }: Package, { orgs }: RegistryCaller): boolean =>
  visibility === 'public' || orgs.includes(org)

export const smallTask = (name: string): [string, MemoryFile][] => [
  ['task.toml', `schema_version = "1.4"\n[task]\nname = "${name}"\n[agent]\ntimeout_sec = 60\n`],
  ['instruction.md', `Do what ${name} says.\n`],
  ['environment/Dockerfile', 'FROM debian:bookworm-slim\n'],
  ['tests/test.sh', 'echo 1 > /logs/verifier/reward.txt\n'],
  ['solution/solve.sh', 'true\n'],
]
