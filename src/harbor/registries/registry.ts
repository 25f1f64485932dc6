import type { Readable } from 'node:stream'
import type { Digest } from '../../platform/blobs/blob.ts'
import type { Reference } from './reference.ts'

/** What the owner of a benchmark may have at most. */
export const TASKS_MAX = 500

/** A place that datasets come from. */
export type Registry = {
  /** As the operator names it in the settings. A dataset remembers it. */
  name: string
  /** What a reference names now: counted and named, nothing downloaded. Throws RegistryUnavailable. */
  resolve(reference: Reference, options: ResolveOptions): Promise<Resolution>
  /** Opens a dataset that this registry resolved, now or long ago. What it needs on this disk goes with it. */
  open(dataset: ResolvedDataset, options: AccessOptions): Promise<OpenDataset>
}

export type AccessOptions = {
  signal: AbortSignal
  /** A personal key, for registries that know private packages. */
  key?: string
}
export type ResolveOptions = AccessOptions & { tasksMax?: number }

export type Resolution =
  | { kind: 'found'; dataset: ResolvedDataset }
  /** There is none, or none that this key may see. */
  | { kind: 'unknown' }
  /** It has the dataset, in other versions alone. */
  | { kind: 'other_versions'; registry: string; versions: string[] }
  | { kind: 'not_a_dataset' }
  | { kind: 'empty' }
  /** The dataset itself, or these tasks of it. */
  | { kind: 'yanked'; reason: string; tasks: string[] }
  | { kind: 'too_many'; count: number }
  | { kind: 'unauthorized'; detail: string }
  /** The registry contradicts itself: it cannot be what its author published. */
  | { kind: 'invalid'; detail: string }

/** Plain data. Stored as JSON it can be downloaded again later, without asking what a tag means by then. */
export type ResolvedDataset = {
  registry: string
  org: string
  name: string
  /** As it was asked for. */
  ref: string
  /** What it was then: a revision, a version, or the digest. */
  resolvedRef: string
  revision: number | null
  description: string
  /** Null where the registry pins commits: then the download tells. */
  digest: Digest | null
  /** Sorted by name. */
  tasks: ResolvedTask[]
  /** Beside the tasks. They count in the digest, and are not downloaded: we do not use them. */
  files: { path: string; digest: Digest }[]
}

export type ResolvedTask = { org: string; name: string; digest: Digest | null; at: TaskPlace }

export type TaskPlace =
  | { kind: 'archive'; path: string }
  | { kind: 'git'; url: string; commit: string; path: string }
  | { kind: 'folder'; path: string }

export type OpenDataset = AsyncDisposable & {
  /**
   * One task as an archive. Nobody has looked into it yet. Throws RegistryUnavailable, TaskMissing or AccessRefused;
   * the stream may also break with an error of the connection.
   */
  fetch(task: ResolvedTask, signal: AbortSignal): Promise<Readable>
}

/** Names a registry to a workspace. Paths and addresses in ASSAY_REGISTRIES are the operator's business. */
export function registryLabel(name: string): string {
  if (['harbor', 'samples'].includes(name)) return `registry ${name}`
  return name.startsWith('dir:') ? 'local registry' : 'registry.json'
}

export const taskName = ({ org, name }: { org: string; name: string }): string => `${org}/${name}`

/** The registry does not answer, or not as it should. The dataset may be fine. */
export class RegistryUnavailable extends Error {
  override name = 'RegistryUnavailable'
  /** How long it asked us to wait. */
  readonly retryAfterMs: number | undefined
  /** Trying again gives the same answer, until somebody changes a setting. */
  readonly isLasting: boolean

  constructor(
    message: string,
    { retryAfterMs, isLasting = false }: { retryAfterMs?: number; isLasting?: boolean } = {},
  ) {
    super(message)
    this.retryAfterMs = retryAfterMs
    this.isLasting = isLasting
  }
}

/** The registry names a task and does not have it. */
export class TaskMissing extends Error {
  override name = 'TaskMissing'
}

/** The registry does not take the key. */
export class AccessRefused extends Error {
  override name = 'AccessRefused'
}
