import { z } from 'zod'
import { hexOf } from '../../platform/blobs/blob.ts'
import { textOf } from './ask.ts'
import { jsonOf, type PackageAccess } from './package-access.ts'
import { type Patience, patiently } from './patience.ts'
import type { Reference } from './reference.ts'
import { RegistryUnavailable, type ResolvedTask } from './registry.ts'

export type Asking = { access: PackageAccess; patience: Patience; signal: AbortSignal }

const Hash = z.string().regex(/^(sha256:)?[0-9a-f]{64}$/)
const Version = z.object({
  id: z.string().regex(/^[\w-]{1,64}$/),
  revision: z.int(),
  content_hash: Hash,
  description: z.string().nullish(),
  yanked_at: z.string().nullish(),
  yanked_reason: z.string().nullish(),
})
export type DatasetVersion = z.infer<typeof Version>

const Member = z.object({
  content_hash: Hash,
  archive_path: z.string(),
  yanked_at: z.string().nullish(),
  package: z.object({ name: z.string(), org: z.object({ name: z.string() }) }),
})
/** Null: the registry does not show it to whoever asks. */
const MemberRow = z.object({ task_version: Member.nullable() })
export type Members = z.infer<typeof MemberRow>['task_version'][]

const FileRow = z.object({ path: z.string(), content_hash: Hash })

const OF_PACKAGE = 'package:package_id!inner(*,org:org_id!inner(name))'
const PAGE = 1000

/** The version that a reference names, if whoever asks may see it. */
export async function findVersion(asking: Asking, { org, name, ref }: Reference): Promise<DatasetVersion | undefined> {
  const where = {
    'package.name': `eq.${name}`,
    'package.type': 'eq.dataset',
    'package.org.name': `eq.${org}`,
    limit: '1',
  }
  if (ref.kind === 'tag') {
    const select = `dataset_version:dataset_version_id(*),${OF_PACKAGE}`
    const query = { select, tag: `eq.${ref.tag}`, ...where }
    const [row] = await rows(asking, 'dataset_version_tag', query, z.object({ dataset_version: Version.nullable() }))
    return row?.dataset_version ?? undefined
  }
  const which =
    ref.kind === 'revision' ? { revision: `eq.${ref.revision}` } : { content_hash: `eq.${hexOf(ref.digest)}` }
  const [row] = await rows(asking, 'dataset_version', { select: `*,${OF_PACKAGE}`, ...which, ...where }, Version)
  return row
}

export async function findPackageType(asking: Asking, { org, name }: Reference): Promise<string | undefined> {
  const select = 'id,type,visibility,org:org_id!inner(name)'
  const query = { select, name: `eq.${name}`, 'org.name': `eq.${org}`, limit: '1' }
  const [row] = await rows(asking, 'package', query, z.object({ type: z.string() }))
  return row?.type
}

/** The tasks of a version, or only their number when there are more than that: the rest is not asked for. */
export async function listMembers(
  asking: Asking,
  version: DatasetVersion,
  tasksMax: number,
): Promise<Members | number> {
  const query = {
    select:
      'task_version:task_version_id(content_hash,archive_path,yanked_at,package:package_id(name,org:org_id(name)))',
    dataset_version_id: `eq.${version.id}`,
    order: 'task_version_id',
  }
  const members: Members = []
  for (;;) {
    const page = await readPage(asking, 'dataset_version_task', { ...query, ...pageAt(members.length) }, MemberRow)
    members.push(...page.rows.map((row) => row.task_version))
    const count = Math.max(page.total ?? 0, members.length)
    if (count > tasksMax) return count
    if (page.rows.length < PAGE) return members
  }
}

export async function listFiles(asking: Asking, version: DatasetVersion): Promise<z.infer<typeof FileRow>[]> {
  const query = {
    select: 'path,storage_path,content_hash,size_bytes',
    dataset_version_id: `eq.${version.id}`,
    order: 'id',
  }
  const files: z.infer<typeof FileRow>[] = []
  for (;;) {
    const page = await readPage(asking, 'dataset_version_file', { ...query, ...pageAt(files.length) }, FileRow)
    files.push(...page.rows)
    if (files.length > FILES_MAX)
      throw new RegistryUnavailable('The dataset lists too many files.', { isLasting: true })
    if (page.rows.length < PAGE) return files
  }
}

const Resolved = z.object({ archive_path: z.string(), content_hash: Hash }).nullable()

/** Where the archive of a task is now. */
export async function findArchivePath(
  asking: Asking,
  { org, name, digest }: ResolvedTask,
): Promise<string | undefined> {
  const { access, patience, signal } = asking
  const body = JSON.stringify({ p_org: org, p_name: name, p_ref: digest })
  return patiently(
    async () => {
      const headers = { accept: 'application/json', 'content-type': 'application/json' }
      const response = await access.send('/rest/v1/rpc/resolve_task_version', { method: 'POST', body, headers, signal })
      const { data } = Resolved.safeParse(jsonOf(await textOf(response)))
      if (response.ok && data !== undefined) return data?.archive_path
      throw new RegistryUnavailable(`The registry answered ${response.status} to a question about a task.`)
    },
    patience,
    signal,
  )
}

const FILES_MAX = 10_000
const pageAt = (offset: number) => ({ offset: String(offset), limit: String(PAGE) })

const rows = async <Row>(asking: Asking, table: string, query: Record<string, string>, shape: z.ZodType<Row>) =>
  (await readPage(asking, table, query, shape)).rows

async function readPage<Row>(
  { access, patience, signal }: Asking,
  table: string,
  query: Record<string, string>,
  shape: z.ZodType<Row>,
): Promise<{ rows: Row[]; total: number | undefined }> {
  const path = `/rest/v1/${table}?${new URLSearchParams(query)}`
  return patiently(
    async () => {
      const response = await access.send(path, {
        signal,
        headers: { accept: 'application/json', prefer: 'count=exact' },
      })
      const { data } = z.array(shape).safeParse(jsonOf(await textOf(response)))
      if (response.ok && data) return { rows: data, total: totalOf(response) }
      throw new RegistryUnavailable(`The registry answered ${response.status} to a question about ${table}.`)
    },
    patience,
    signal,
  )
}

/** `0-999/1201`, or a star for what the server did not count. */
function totalOf(response: Response): number | undefined {
  const [, total] = /\/(\d{1,9})$/.exec(response.headers.get('content-range') ?? '') ?? []
  return total === undefined ? undefined : Number(total)
}
