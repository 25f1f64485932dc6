import { z } from 'zod'
import { hexOf } from '../../platform/blobs/blob.ts'
import { type PackageAccess, parseJson } from './package-access.ts'
import type { DatasetReference } from './reference.ts'
import { RegistryUnavailable, type ResolvedTask } from './registry.ts'
import { readResponseText } from './registry-request.ts'
import { type RetryTimer, retryUnavailable } from './retry.ts'

export type PackageQueryContext = { access: PackageAccess; retryTimer: RetryTimer; signal: AbortSignal }

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
/** `task_version` is null if the caller may not see the task. */
const MemberRow = z.object({ task_version: Member.nullable() })
export type DatasetMembers = z.infer<typeof MemberRow>['task_version'][]

const FileRow = z.object({ path: z.string(), content_hash: Hash })

const OF_PACKAGE = 'package:package_id!inner(*,org:org_id!inner(name))'
const PAGE = 1000

/** Finds the version that a reference names, if the caller may see it. */
export async function findVersion(
  context: PackageQueryContext,
  { org, name, ref }: DatasetReference,
): Promise<DatasetVersion | undefined> {
  const where = {
    'package.name': `eq.${name}`,
    'package.type': 'eq.dataset',
    'package.org.name': `eq.${org}`,
    limit: '1',
  }
  if (ref.kind === 'tag') {
    const select = `dataset_version:dataset_version_id(*),${OF_PACKAGE}`
    const query = { select, tag: `eq.${ref.tag}`, ...where }
    const [row] = await readRows(
      context,
      'dataset_version_tag',
      query,
      z.object({ dataset_version: Version.nullable() }),
    )
    return row?.dataset_version ?? undefined
  }
  const which =
    ref.kind === 'revision' ? { revision: `eq.${ref.revision}` } : { content_hash: `eq.${hexOf(ref.digest)}` }
  const [row] = await readRows(context, 'dataset_version', { select: `*,${OF_PACKAGE}`, ...which, ...where }, Version)
  return row
}

export async function findPackageType(
  context: PackageQueryContext,
  { org, name }: DatasetReference,
): Promise<string | undefined> {
  const select = 'id,type,visibility,org:org_id!inner(name)'
  const query = { select, name: `eq.${name}`, 'org.name': `eq.${org}`, limit: '1' }
  const [row] = await readRows(context, 'package', query, z.object({ type: z.string() }))
  return row?.type
}

/** Lists the tasks of a version, or returns only their number if there are more than `tasksMax`. */
export async function listMembers(
  context: PackageQueryContext,
  version: DatasetVersion,
  tasksMax: number,
): Promise<DatasetMembers | number> {
  const query = {
    select:
      'task_version:task_version_id(content_hash,archive_path,yanked_at,package:package_id(name,org:org_id(name)))',
    dataset_version_id: `eq.${version.id}`,
    order: 'task_version_id',
  }
  const members: DatasetMembers = []
  for (;;) {
    const page = await readPage(context, 'dataset_version_task', { ...query, ...pageAt(members.length) }, MemberRow)
    members.push(...page.rows.map((row) => row.task_version))
    const count = Math.max(page.total ?? 0, members.length)
    if (count > tasksMax) return count
    if (page.rows.length < PAGE) return members
  }
}

export async function listFiles(
  context: PackageQueryContext,
  version: DatasetVersion,
): Promise<z.infer<typeof FileRow>[]> {
  const query = {
    select: 'path,storage_path,content_hash,size_bytes',
    dataset_version_id: `eq.${version.id}`,
    order: 'id',
  }
  const files: z.infer<typeof FileRow>[] = []
  for (;;) {
    const page = await readPage(context, 'dataset_version_file', { ...query, ...pageAt(files.length) }, FileRow)
    files.push(...page.rows)
    if (files.length > FILES_MAX)
      throw new RegistryUnavailable('The dataset lists too many files.', { isLasting: true })
    if (page.rows.length < PAGE) return files
  }
}

const Resolved = z.object({ archive_path: z.string(), content_hash: Hash }).nullable()

/** Finds the current path of a task's archive. */
export async function findArchivePath(
  context: PackageQueryContext,
  { org, name, digest }: ResolvedTask,
): Promise<string | undefined> {
  const { access, retryTimer, signal } = context
  const body = JSON.stringify({ p_org: org, p_name: name, p_ref: digest })
  return retryUnavailable(
    async () => {
      const headers = { accept: 'application/json', 'content-type': 'application/json' }
      const response = await access.send('/rest/v1/rpc/resolve_task_version', { method: 'POST', body, headers, signal })
      const { data } = Resolved.safeParse(parseJson(await readResponseText(response)))
      if (response.ok && data !== undefined) return data?.archive_path
      throw new RegistryUnavailable(`The registry answered ${response.status} to a query for a task.`)
    },
    retryTimer,
    signal,
  )
}

const FILES_MAX = 10_000
const pageAt = (offset: number) => ({ offset: String(offset), limit: String(PAGE) })

const readRows = async <Row>(
  context: PackageQueryContext,
  table: string,
  query: Record<string, string>,
  shape: z.ZodType<Row>,
) => (await readPage(context, table, query, shape)).rows

async function readPage<Row>(
  { access, retryTimer, signal }: PackageQueryContext,
  table: string,
  query: Record<string, string>,
  shape: z.ZodType<Row>,
): Promise<{ rows: Row[]; total: number | undefined }> {
  const path = `/rest/v1/${table}?${new URLSearchParams(query)}`
  return retryUnavailable(
    async () => {
      const response = await access.send(path, {
        signal,
        headers: { accept: 'application/json', prefer: 'count=exact' },
      })
      const { data } = z.array(shape).safeParse(parseJson(await readResponseText(response)))
      if (response.ok && data) return { rows: data, total: parseTotal(response) }
      throw new RegistryUnavailable(`The registry answered ${response.status} to a query for ${table}.`)
    },
    retryTimer,
    signal,
  )
}

/** Parses the total of a Content-Range such as `0-999/1201`. Returns undefined for `*`. */
function parseTotal(response: Response): number | undefined {
  const [, total] = /\/(\d{1,9})$/.exec(response.headers.get('content-range') ?? '') ?? []
  return total === undefined ? undefined : Number(total)
}
