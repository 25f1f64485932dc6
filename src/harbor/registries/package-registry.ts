import { Readable } from 'node:stream'
import type { Digest } from '../../platform/blobs/blob.ts'
import type { Outbound } from '../../platform/outbound/outbound.ts'
import { datasetDigest } from '../digest.ts'
import { TASK_BYTES_MAX } from '../limits.ts'
import { pathFault } from '../path-rules.ts'
import { shown } from '../report.ts'
import { type PackageAccess, packageAccess, type Tokens } from './package-access.ts'
import {
  type Asking,
  type DatasetVersion,
  findArchivePath,
  findPackageType,
  findVersion,
  listFiles,
  listMembers,
  type Members,
} from './package-queries.ts'
import { type Patience, patience } from './patience.ts'
import { DOWNLOAD_TIMEOUT_MS } from './receive.ts'
import { isPart, type Reference, refText } from './reference.ts'
import {
  type AccessOptions,
  AccessRefused,
  type Registry,
  type Resolution,
  type ResolvedTask,
  TASKS_MAX,
  TaskMissing,
} from './registry.ts'
import { doubled, inOrder } from './task-names.ts'

export type PackageRegistryOptions = {
  name: string
  outbound: Outbound
  /** Of the operator's choice; it may be private. */
  url: string
  /** Everybody may know it: it says which project is asked, not who asks. */
  publicKey: string
  patience?: Patience
  /** Of one question. Archives take as long as unpacking may. */
  timeoutMs?: number
  now?: () => number
}

/** Harbor's package registry: PostgREST for what there is, an object store for the archives. */
export function packageRegistry(options: PackageRegistryOptions): Registry {
  const server = { ...options, url: options.url.replace(/\/+$/, ''), now: options.now ?? Date.now }
  const tokens: Tokens = new Map()
  const asking = ({ key, signal }: AccessOptions): Asking => ({
    access: packageAccess(server, tokens, key),
    patience: options.patience ?? patience,
    signal,
  })
  return {
    name: options.name,
    resolve: (reference, { tasksMax = TASKS_MAX, ...access }) =>
      resolve(asking(access), reference, { registry: options.name, tasksMax }).catch(asOutcome),
    async open(_, access) {
      const opened = asking(access)
      return {
        fetch: (task, signal) => fetchArchive(opened, task, signal),
        [Symbol.asyncDispose]: async () => undefined,
      }
    },
  }
}

function asOutcome(error: unknown): Resolution {
  if (error instanceof AccessRefused) return { kind: 'unauthorized', detail: error.message }
  throw error
}

type Wish = { registry: string; tasksMax: number }

async function resolve(asking: Asking, reference: Reference, wish: Wish): Promise<Resolution> {
  const version = await findVersion(asking, reference)
  if (!version) return { kind: (await findPackageType(asking, reference)) === 'task' ? 'not_a_dataset' : 'unknown' }
  if (version.yanked_at) return { kind: 'yanked', reason: shown(version.yanked_reason ?? ''), tasks: [] }
  const members = await listMembers(asking, version, wish.tasksMax)
  if (typeof members === 'number') return { kind: 'too_many', count: members }
  if (members.length === 0) return { kind: 'empty' }
  return refusalOf(members) ?? found(asking, reference, { version, members, registry: wish.registry })
}

function refusalOf(members: Members): Resolution | undefined {
  const hidden = members.filter((member) => member === null).length
  if (hidden > 0)
    return { kind: 'unauthorized', detail: `${hidden} of its tasks are private. Use a key that may see them.` }
  const yanked = members.filter((member) => member?.yanked_at).map((member) => shown(member?.package.name ?? ''))
  return yanked.length > 0 ? { kind: 'yanked', reason: '', tasks: yanked.toSorted() } : undefined
}

type Found = { version: DatasetVersion; members: Members; registry: string }

async function found(asking: Asking, reference: Reference, { version, members, registry }: Found): Promise<Resolution> {
  const tasks = members.flatMap((member) => (member ? [taskOf(member)] : [])).toSorted(inOrder)
  const bad = tasks.find(({ org, name }) => !isPart(org) || !isPart(name))
  if (bad) return { kind: 'invalid', detail: `${shown(`${bad.org}/${bad.name}`)} is no name for a task.` }
  const twice = doubled(tasks)
  if (twice) return { kind: 'invalid', detail: `${twice} is in it twice.` }

  const files = (await listFiles(asking, version)).map((file) => ({ path: file.path, digest: digestOf(file) }))
  const digest = digestOf(version)
  const recomputed = datasetDigest(
    tasks.map((task) => task.digest),
    files,
  )
  if (recomputed !== digest)
    return { kind: 'invalid', detail: `It should be ${digest}; its tasks make it ${recomputed}.` }
  const { org, name, ref } = reference
  const { revision } = version
  const description = version.description ?? ''
  const resolvedRef = String(revision)
  return {
    kind: 'found',
    dataset: { registry, org, name, ref: refText(ref), resolvedRef, revision, description, digest, tasks, files },
  }
}

function taskOf(member: NonNullable<Members[number]>): ResolvedTask & { digest: Digest } {
  const { name, org } = member.package
  return { org: org.name, name, digest: digestOf(member), at: { kind: 'archive', path: member.archive_path } }
}

/** Stored without its prefix, and never trusted: whatever it names is recomputed. */
const digestOf = ({ content_hash }: { content_hash: string }): Digest =>
  `sha256:${content_hash.replace(/^sha256:/, '')}`

/** Where the archive was when the dataset was resolved. It may have moved since: its digest still finds it. */
async function fetchArchive(asking: Asking, task: ResolvedTask, signal: AbortSignal): Promise<Readable> {
  if (task.at.kind !== 'archive') throw new Error(`${task.name} was not resolved by this registry.`)
  const first = await findObject(asking.access, task.at.path, signal)
  if (first) return first
  const path = await findArchivePath({ ...asking, signal }, task)
  const second = path === undefined || path === task.at.path ? undefined : await findObject(asking.access, path, signal)
  if (second) return second
  throw new TaskMissing('The registry does not have its archive.')
}

async function findObject(access: PackageAccess, place: string, signal: AbortSignal): Promise<Readable | undefined> {
  if (pathFault(place)) return undefined
  const path = place.split('/').map(encodeURIComponent).join('/')
  const limits = { signal, timeoutMs: DOWNLOAD_TIMEOUT_MS, bytesMax: TASK_BYTES_MAX }
  const response = await access.send(`/storage/v1/object/packages/${path}`, limits)
  if (response.ok && response.body) return Readable.from(response.body, { objectMode: false })
  await response.body?.cancel()
  return undefined
}
