import type { Readable } from 'node:stream'
import { type Digest, isDigest } from '../../platform/blobs/blob.ts'
import { compareCodePoints } from '../paths.ts'
import { sanitizeText } from '../report.ts'

/** Maximum number of tasks in a benchmark. */
export const TASKS_MAX = 500

/** A source of datasets. */
export type Registry = {
  /** Entry in ASSAY_REGISTRIES that defines the registry. Stored with each dataset. */
  name: string
  /** Resolves a reference and lists the tasks without downloading them. Throws RegistryUnavailable. */
  resolve(reference: DatasetReference, options: ResolveOptions): Promise<Resolution>
  /** Opens a dataset that this registry resolved, now or earlier. Disposing it deletes its temporary files. */
  open(dataset: ResolvedDataset, options: AccessOptions): Promise<OpenDataset>
}

export type AccessOptions = {
  signal: AbortSignal
  /** Personal key, for registries with private packages. */
  key?: string | undefined
}
export type ResolveOptions = AccessOptions & { tasksMax?: number }

export type Resolution =
  | { kind: 'found'; dataset: ResolvedDataset }
  /** The dataset does not exist, or the key has no access to it. */
  | { kind: 'unknown' }
  /** The dataset exists, but not in this version. */
  | { kind: 'other_versions'; registry: string; versions: string[] }
  | { kind: 'not_a_dataset' }
  | { kind: 'empty' }
  /** The dataset was yanked, or if `tasks` is not empty, only these tasks. */
  | { kind: 'yanked'; reason: string; tasks: string[] }
  | { kind: 'too_many'; count: number }
  | { kind: 'unauthorized'; detail: string }
  /** The data of the registry is inconsistent. */
  | { kind: 'invalid'; detail: string }

/** A dataset at a fixed version. Plain data: stored as JSON, it can be downloaded again even if a tag has moved. */
export type ResolvedDataset = {
  registry: string
  org: string
  name: string
  /** Version in the request. */
  ref: string
  /** Version it resolved to: a revision, a version or the digest. */
  resolvedRef: string
  revision: number | null
  description: string
  /** Null if the registry identifies versions by commit; then the digest is only known after the download. */
  digest: Digest | null
  /** Sorted by name. */
  tasks: ResolvedTask[]
  /** Additional files. They are part of the digest but not downloaded. */
  files: { path: string; digest: Digest }[]
}

export type ResolvedTask = { org: string; name: string; digest: Digest | null; at: TaskLocation }

export type TaskLocation =
  | { kind: 'archive'; path: string }
  | { kind: 'git'; url: string; commit: string; path: string }
  | { kind: 'folder'; path: string }

export type OpenDataset = AsyncDisposable & {
  /**
   * Fetches one task as an unverified archive. Throws RegistryUnavailable, TaskMissing or AccessRefused; the stream may
   * also fail with a connection error.
   */
  fetch(task: ResolvedTask, signal: AbortSignal): Promise<Readable>
}

/** Describes a registry to a workspace, without the paths and addresses in ASSAY_REGISTRIES. */
export function describeRegistry(name: string): string {
  if (['harbor', 'samples'].includes(name)) return `registry ${name}`
  return name.startsWith('dir:') ? 'local registry' : 'registry.json'
}

export const formatTaskName = ({ org, name }: { org: string; name: string }): string => `${org}/${name}`

/**
 * Thrown when a registry cannot be reached or answers unexpectedly. Does not imply that the dataset is missing or
 * invalid.
 */
export class RegistryUnavailable extends Error {
  override name = 'RegistryUnavailable'
  /** Pause that the registry requested. */
  readonly retryAfterMs: number | undefined
  /** A retry is pointless until a setting changes. */
  readonly isPermanent: boolean

  constructor(
    message: string,
    { retryAfterMs, isPermanent = false }: { retryAfterMs?: number | undefined; isPermanent?: boolean } = {},
  ) {
    super(message)
    this.retryAfterMs = retryAfterMs
    this.isPermanent = isPermanent
  }
}

/** Thrown when a registry lists a task but does not have it. */
export class TaskMissing extends Error {
  override name = 'TaskMissing'
}

/** Thrown when a registry rejects the key. */
export class AccessRefused extends Error {
  override name = 'AccessRefused'
}

/** Orders tasks by name, independent of the registry. */
export const compareTaskNames = (a: ResolvedTask, b: ResolvedTask): number =>
  compareCodePoints(formatTaskName(a), formatTaskName(b))

/** Finds a duplicate name among sorted tasks, ignoring case. Results identify tasks by name. */
export function findDuplicateName(tasks: readonly ResolvedTask[]): string | undefined {
  const names = tasks.map(formatTaskName)
  return names.find((name, index) => index > 0 && name.toLowerCase() === names[index - 1]?.toLowerCase())
}

/** A dataset and its version. */
export type DatasetReference = { org: string; name: string; ref: DatasetRef }

/** A version of a dataset. Tags can move; revisions and digests cannot. */
export type DatasetRef =
  | { kind: 'tag'; tag: string }
  | { kind: 'revision'; revision: number }
  | { kind: 'digest'; digest: Digest }

export const LATEST = 'latest'

const NAME_PART = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
const TAG = /^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$/
/** Fits into 32 bits, as in the registry. */
const REVISION = /^\d{1,9}$/

/** Parses `org/name` or `org/name@ref` as Harbor does: the last @ separates, digits are a revision. */
export function parseReference(text: string): DatasetReference | { refused: string } {
  const at = text.lastIndexOf('@')
  const [path, ref] = at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
  const [org = '', name, ...rest] = path.split('/')
  if (name === undefined) return { refused: `Write the dataset as org/name: ${sanitizeText(text)} has no slash.` }
  if (rest.length > 0 || !isNamePart(org) || !isNamePart(name))
    return { refused: `${sanitizeText(path)} is not org/name.` }
  const parsedRef = parseRef(ref)
  return parsedRef
    ? { org, name, ref: parsedRef }
    : { refused: `${sanitizeText(ref)} is not a tag, a revision or a sha256: digest.` }
}

function parseRef(text: string): DatasetRef | undefined {
  if (text === '') return { kind: 'tag', tag: LATEST }
  if (/^\d+$/.test(text)) return REVISION.test(text) ? { kind: 'revision', revision: Number(text) } : undefined
  if (text.startsWith('sha256:')) return isDigest(text) ? { kind: 'digest', digest: text } : undefined
  return TAG.test(text) ? { kind: 'tag', tag: text } : undefined
}

/** Validates an organisation or dataset name, which becomes part of paths. */
export const isNamePart = (text: string): boolean => NAME_PART.test(text) && !text.includes('..')

/** Formats a version as it is written after the @. */
export function formatRef(ref: DatasetRef): string {
  if (ref.kind === 'tag') return ref.tag
  return ref.kind === 'digest' ? ref.digest : String(ref.revision)
}
