import { Readable } from 'node:stream'
import type { Digest } from '../../platform/blobs/blob.ts'
import type { Outbound } from '../../platform/outbound/outbound.ts'
import { computeDatasetDigest } from '../digest.ts'
import { TASK_BYTES_MAX } from '../limits.ts'
import { findPathFault } from '../paths.ts'
import { sanitizeText } from '../report.ts'
import { openPackageAccess, type PackageAccess, type TokenCache } from './package-access.ts'
import {
  type DatasetMembers,
  type DatasetVersion,
  findArchivePath,
  findPackageType,
  findVersion,
  listFiles,
  listMembers,
  type PackageQueryContext,
} from './package-queries.ts'
import { DOWNLOAD_TIMEOUT_MS } from './receive.ts'
import { type DatasetReference, formatRef, isNamePart } from './reference.ts'
import {
  type AccessOptions,
  AccessRefused,
  compareTaskNames,
  findDuplicateName,
  type Registry,
  type Resolution,
  type ResolvedTask,
  TASKS_MAX,
  TaskMissing,
} from './registry.ts'
import { type RetryTimer, retryTimer } from './retry.ts'

export type PackageRegistryOptions = {
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
  const context = ({ key, signal }: AccessOptions): PackageQueryContext => ({
    access: openPackageAccess(server, tokens, key),
    retryTimer: options.retryTimer ?? retryTimer,
    signal,
  })
  return {
    name: options.name,
    resolve: (reference, { tasksMax = TASKS_MAX, ...access }) =>
      resolve(context(access), reference, { registry: options.name, tasksMax }).catch(toResolution),
    async open(_, access) {
      const opened = context(access)
      return {
        fetch: (task, signal) => fetchArchive(opened, task, signal),
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
  const members = await listMembers(context, version, options.tasksMax)
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
  const bad = tasks.find(({ org, name }) => !isNamePart(org) || !isNamePart(name))
  if (bad) return { kind: 'invalid', detail: `${sanitizeText(`${bad.org}/${bad.name}`)} is not a valid task name.` }
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

async function findObject(access: PackageAccess, place: string, signal: AbortSignal): Promise<Readable | undefined> {
  if (findPathFault(place)) return undefined
  const path = place.split('/').map(encodeURIComponent).join('/')
  const limits = { signal, timeoutMs: DOWNLOAD_TIMEOUT_MS, bytesMax: TASK_BYTES_MAX }
  const response = await access.send(`/storage/v1/object/packages/${path}`, limits)
  if (response.ok && response.body) return Readable.from(response.body, { objectMode: false })
  await response.body?.cancel()
  return undefined
}
