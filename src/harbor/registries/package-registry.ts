import { Readable } from 'node:stream'
import { z } from 'zod'
import { type Digest, hexOf } from '../../platform/blobs/blob.ts'
import type { Outbound } from '../../platform/outbound/outbound.ts'
import { parseUntrustedJson } from '../../platform/untrusted-json.ts'
import { computeDatasetDigest } from '../digest.ts'
import { TASK_BYTES_MAX } from '../limits.ts'
import { findPathFault } from '../paths.ts'
import { sanitizeText } from '../report.ts'
import { openPackageAccess, type PackageAccess, type TokenCache } from './package-access.ts'
import { DOWNLOAD_TIMEOUT_MS } from './receive.ts'
import {
  type AccessOptions,
  AccessRefused,
  compareTaskNames,
  type DatasetReference,
  findDuplicateName,
  formatRef,
  isNamePart,
  type Registry,
  RegistryUnavailable,
  type Resolution,
  type ResolvedTask,
  TASKS_MAX,
  TaskMissing,
} from './registry.ts'
import { type RetryTimer, readResponseText, retryTimer, retryUnavailable } from './registry-request.ts'

type PackageRegistryOptions = {
  name: string
  outbound: Outbound
  /** Chosen by the operator; may be a private address. */
  url: string
  /** Identifies the project, not the caller. Not a secret. */
  publicKey: string
  retryTimer?: RetryTimer
  /** Timeout of one query. Archives have the timeout of unpacking. */
  timeoutMs?: number
  now?: () => number
}

/** Opens Harbor's package registry: PostgREST for metadata, an object store for archives. */
export function openPackageRegistry(options: PackageRegistryOptions): Registry {
  const server = { ...options, url: options.url.replace(/\/+$/, ''), now: options.now ?? Date.now }
  const tokens: TokenCache = new Map()
  const openContext = ({ key, signal }: AccessOptions): PackageQueryContext => ({
    access: openPackageAccess(server, tokens, key),
    retryTimer: options.retryTimer ?? retryTimer,
    signal,
  })
  return {
    name: options.name,
    resolve: (reference, { tasksMax = TASKS_MAX, ...access }) =>
      resolve(openContext(access), reference, { registry: options.name, tasksMax }).catch(toResolution),
    async open(_, access) {
      const context = openContext(access)
      return {
        fetch: (task, signal) => fetchArchive(context, task, signal),
        [Symbol.asyncDispose]: async () => undefined,
      }
    },
  }
}

function toResolution(error: unknown): Resolution {
  if (error instanceof AccessRefused) return { kind: 'unauthorized', detail: error.message }
  throw error
}

type PackageResolveOptions = { registry: string; tasksMax: number }

async function resolve(
  context: PackageQueryContext,
  reference: DatasetReference,
  options: PackageResolveOptions,
): Promise<Resolution> {
  const version = await findVersion(context, reference)
  if (!version) return { kind: (await findPackageType(context, reference)) === 'task' ? 'not_a_dataset' : 'unknown' }
  if (version.yanked_at) return { kind: 'yanked', reason: sanitizeText(version.yanked_reason ?? ''), tasks: [] }
  const members = await fetchMembers(context, version, options.tasksMax)
  if (typeof members === 'number') return { kind: 'too_many', count: members }
  if (members.length === 0) return { kind: 'empty' }
  return findRefusal(members) ?? resolveListed(context, reference, { version, members, registry: options.registry })
}

function findRefusal(members: DatasetMembers): Resolution | undefined {
  const hidden = members.filter((member) => member === null).length
  if (hidden > 0)
    return {
      kind: 'unauthorized',
      detail: `${hidden} tasks of the dataset are private. Use a key that has access to them.`,
    }
  const yanked = members.filter((member) => member?.yanked_at).map((member) => sanitizeText(member?.package.name ?? ''))
  return yanked.length > 0 ? { kind: 'yanked', reason: '', tasks: yanked.toSorted() } : undefined
}

type ListedVersion = { version: DatasetVersion; members: DatasetMembers; registry: string }

async function resolveListed(
  context: PackageQueryContext,
  reference: DatasetReference,
  { version, members, registry }: ListedVersion,
): Promise<Resolution> {
  const tasks = members.flatMap((member) => (member ? [toResolvedTask(member)] : [])).toSorted(compareTaskNames)
  const invalid = tasks.find(({ org, name }) => !isNamePart(org) || !isNamePart(name))
  if (invalid)
    return { kind: 'invalid', detail: `${sanitizeText(`${invalid.org}/${invalid.name}`)} is not a valid task name.` }
  const duplicate = findDuplicateName(tasks)
  if (duplicate) return { kind: 'invalid', detail: `Duplicate task ${duplicate}.` }

  const files = (await listFiles(context, version)).map((file) => ({ path: file.path, digest: toDigest(file) }))
  const digest = toDigest(version)
  const recomputed = computeDatasetDigest(
    tasks.map((task) => task.digest),
    files,
  )
  if (recomputed !== digest)
    return { kind: 'invalid', detail: `Digest mismatch: expected ${digest}, computed ${recomputed} from the tasks.` }
  const { org, name, ref } = reference
  const { revision } = version
  const description = version.description ?? ''
  const resolvedRef = String(revision)
  return {
    kind: 'found',
    dataset: { registry, org, name, ref: formatRef(ref), resolvedRef, revision, description, digest, tasks, files },
  }
}

function toResolvedTask(member: NonNullable<DatasetMembers[number]>): ResolvedTask & { digest: Digest } {
  const { name, org } = member.package
  return { org: org.name, name, digest: toDigest(member), at: { kind: 'archive', path: member.archive_path } }
}

/** Adds the prefix, which the registry may omit. The digest is not trusted: it is recomputed after the download. */
const toDigest = ({ content_hash }: { content_hash: string }): Digest =>
  `sha256:${content_hash.replace(/^sha256:/, '')}`

/** Fetches an archive from the path at resolution time, or if it has moved since, from its current path. */
async function fetchArchive(context: PackageQueryContext, task: ResolvedTask, signal: AbortSignal): Promise<Readable> {
  if (task.at.kind !== 'archive') throw new Error(`${task.name} was not resolved by this registry.`)
  const first = await findObject(context.access, task.at.path, signal)
  if (first) return first
  const path = await findArchivePath({ ...context, signal }, task)
  const second =
    path === undefined || path === task.at.path ? undefined : await findObject(context.access, path, signal)
  if (second) return second
  throw new TaskMissing('The registry does not have the archive of the task.')
}

async function findObject(access: PackageAccess, path: string, signal: AbortSignal): Promise<Readable | undefined> {
  if (findPathFault(path)) return undefined
  const encoded = path.split('/').map(encodeURIComponent).join('/')
  const limits = { signal, timeoutMs: DOWNLOAD_TIMEOUT_MS, bytesMax: TASK_BYTES_MAX }
  const response = await access.send(`/storage/v1/object/packages/${encoded}`, limits)
  if (response.ok && response.body) return Readable.from(response.body, { objectMode: false })
  await response.body?.cancel()
  return undefined
}

type PackageQueryContext = { access: PackageAccess; retryTimer: RetryTimer; signal: AbortSignal }

const Hash = z.string().regex(/^(sha256:)?[0-9a-f]{64}$/)
const Version = z.object({
  id: z.string().regex(/^[\w-]{1,64}$/),
  revision: z.int(),
  content_hash: Hash,
  description: z.string().nullish(),
  yanked_at: z.string().nullish(),
  yanked_reason: z.string().nullish(),
})
type DatasetVersion = z.infer<typeof Version>

const Member = z.object({
  content_hash: Hash,
  archive_path: z.string(),
  yanked_at: z.string().nullish(),
  package: z.object({ name: z.string(), org: z.object({ name: z.string() }) }),
})
/** `task_version` is null if the caller may not see the task. */
const MemberRow = z.object({ task_version: Member.nullable() })
type DatasetMembers = z.infer<typeof MemberRow>['task_version'][]

const FileRow = z.object({ path: z.string(), content_hash: Hash })

const SELECT_PACKAGE = 'package:package_id!inner(*,org:org_id!inner(name))'
const PAGE_SIZE = 1000
const DATASET_FILES_MAX = 10_000

/** Finds the version that a reference names, if the caller may see it. */
async function findVersion(
  context: PackageQueryContext,
  { org, name, ref }: DatasetReference,
): Promise<DatasetVersion | undefined> {
  const datasetFilter = {
    'package.name': `eq.${name}`,
    'package.type': 'eq.dataset',
    'package.org.name': `eq.${org}`,
    limit: '1',
  }
  if (ref.kind === 'tag') {
    const select = `dataset_version:dataset_version_id(*),${SELECT_PACKAGE}`
    const query = { select, tag: `eq.${ref.tag}`, ...datasetFilter }
    const [row] = await readRows(
      context,
      'dataset_version_tag',
      query,
      z.object({ dataset_version: Version.nullable() }),
    )
    return row?.dataset_version ?? undefined
  }
  const versionFilter =
    ref.kind === 'revision' ? { revision: `eq.${ref.revision}` } : { content_hash: `eq.${hexOf(ref.digest)}` }
  const [row] = await readRows(
    context,
    'dataset_version',
    { select: `*,${SELECT_PACKAGE}`, ...versionFilter, ...datasetFilter },
    Version,
  )
  return row
}

async function findPackageType(
  context: PackageQueryContext,
  { org, name }: DatasetReference,
): Promise<string | undefined> {
  const select = 'id,type,visibility,org:org_id!inner(name)'
  const query = { select, name: `eq.${name}`, 'org.name': `eq.${org}`, limit: '1' }
  const [row] = await readRows(context, 'package', query, z.object({ type: z.string() }))
  return row?.type
}

/** Lists the tasks of a version, or returns only their number if there are more than `tasksMax`. */
async function fetchMembers(
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
    const page = await readPage(
      context,
      'dataset_version_task',
      { ...query, ...toPageQuery(members.length) },
      MemberRow,
    )
    members.push(...page.rows.map((row) => row.task_version))
    const count = Math.max(page.total ?? 0, members.length)
    if (count > tasksMax) return count
    if (page.rows.length < PAGE_SIZE) return members
  }
}

async function listFiles(context: PackageQueryContext, version: DatasetVersion): Promise<z.infer<typeof FileRow>[]> {
  const query = {
    select: 'path,storage_path,content_hash,size_bytes',
    dataset_version_id: `eq.${version.id}`,
    order: 'id',
  }
  const files: z.infer<typeof FileRow>[] = []
  for (;;) {
    const page = await readPage(context, 'dataset_version_file', { ...query, ...toPageQuery(files.length) }, FileRow)
    files.push(...page.rows)
    if (files.length > DATASET_FILES_MAX)
      throw new RegistryUnavailable(`The dataset lists more than ${DATASET_FILES_MAX} files.`, { isPermanent: true })
    if (page.rows.length < PAGE_SIZE) return files
  }
}

const Resolved = z.object({ archive_path: z.string(), content_hash: Hash }).nullable()

/** Finds the current path of a task's archive. */
async function findArchivePath(
  context: PackageQueryContext,
  { org, name, digest }: ResolvedTask,
): Promise<string | undefined> {
  const { access, retryTimer, signal } = context
  const body = JSON.stringify({ p_org: org, p_name: name, p_ref: digest })
  return retryUnavailable(
    async () => {
      const headers = { accept: 'application/json', 'content-type': 'application/json' }
      const response = await access.send('/rest/v1/rpc/resolve_task_version', { method: 'POST', body, headers, signal })
      const { data } = Resolved.safeParse(parseUntrustedJson(await readResponseText(response)))
      if (response.ok && data !== undefined) return data?.archive_path
      throw new RegistryUnavailable(`The registry answered ${response.status} to a query for a task.`)
    },
    retryTimer,
    signal,
  )
}

const toPageQuery = (offset: number) => ({ offset: String(offset), limit: String(PAGE_SIZE) })

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
      const { data } = z.array(shape).safeParse(parseUntrustedJson(await readResponseText(response)))
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
