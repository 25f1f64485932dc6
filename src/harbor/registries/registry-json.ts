import { readFile, stat } from 'node:fs/promises'
import { resolve as absolute, dirname } from 'node:path'
import type { Readable } from 'node:stream'
import type { z } from 'zod'
import { admitAddress, GIT_MEMORY_KIB } from '../../platform/git/git.ts'
import { findUrlRefusal, type Outbound } from '../../platform/outbound/outbound.ts'
import { type Resolve, resolveName } from '../../platform/outbound/public-host.ts'
import { isCanonical } from '../../platform/outbound/url-rules.ts'
import { openThreads, TaskFailed } from '../../platform/threads.ts'
import { packTask } from '../archive.ts'
import { openFolderSource, resolveInside } from '../folder-source.ts'
import { findPathFault } from '../paths.ts'
import { sanitizeText } from '../report.ts'
import { type AdmitGitUrl, type Checkouts, type GitLog, openCheckouts } from './checkouts.ts'
import {
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
  type TaskLocation,
  TaskMissing,
} from './registry.ts'
import type { ListedTask, ListLookup, ListLookupInput, ListTasks, RegistryJsonEntry } from './registry-list.ts'
import {
  type RetryTimer,
  readResponseText,
  retryTimer,
  retryUnavailable,
  sendRegistryRequest,
} from './registry-request.ts'

type RegistryJsonOptions = {
  name: string
  /** URL or file path. */
  location: string
  outbound: Outbound
  /** Folder for clones, which are deleted when the dataset is closed. */
  scratch: string
  retryTimer?: RetryTimer
  resolveName?: Resolve
  /** Memory limit of git. */
  gitMemoryKib?: number
  log?: GitLog | undefined
}

const BYTES_MAX = 32 * 1024 * 1024

/** Opens Harbor's older format for lists of datasets. It pins commits, so digests are known only after the download. */
export function openRegistryJson(options: RegistryJsonOptions): Registry {
  const { name, location } = options
  const isUrl = /^https?:/.test(location)
  const operatorOrigin = isUrl ? new URL(location).origin : undefined
  const allowed: AllowedLocations = { operatorOrigin, allowsFolders: !isUrl }
  const root = isUrl ? undefined : dirname(absolute(location))
  return {
    name,
    async resolve(reference, { signal, tasksMax = TASKS_MAX }) {
      const text = isUrl ? await download(options, signal) : await readList(location)
      const lookup = await lookUp({ text, reference, tasksMax })
      if (lookup.kind === 'broken') throw toBrokenRegistry('is not a valid registry.json')
      if (lookup.kind === 'found') return resolve(lookup.entry, reference, { registry: name, allowed })
      if (lookup.kind === 'too_many') return lookup
      const { versions } = lookup
      return versions.length > 0 ? { kind: 'other_versions', registry: name, versions } : { kind: 'unknown' }
    },
    async open(dataset) {
      const admit = createGitAdmission(allowed.operatorOrigin, options.resolveName ?? resolveName)
      const memoryKib = options.gitMemoryKib ?? GIT_MEMORY_KIB
      const checkouts = await openCheckouts(dataset.tasks, options.scratch, { admit, memoryKib, log: options.log })
      return {
        fetch: (task, signal) => fetchTask(task, { checkouts, root, signal }),
        [Symbol.asyncDispose]: () => checkouts[Symbol.asyncDispose](),
      }
    },
  }
}

const threads = openThreads<ListTasks>(new URL('./registry-list.ts', import.meta.url), {
  timeoutMs: 60_000,
  memoryMb: 1024,
})

/** Looks up a reference in a thread. A list that takes too much time or memory is broken. */
const lookUp = (input: ListLookupInput): Promise<ListLookup> =>
  threads.run('lookUpInList', input).catch((error: unknown) => {
    if (error instanceof TaskFailed) return { kind: 'broken' }
    throw error
  })

const toBrokenRegistry = (problem: string) =>
  new RegistryUnavailable(`The registry.json in ASSAY_REGISTRIES ${problem}.`, { isPermanent: true })

async function download({ outbound, location, ...options }: RegistryJsonOptions, signal: AbortSignal): Promise<string> {
  return retryUnavailable(
    async () => {
      const response = await sendRegistryRequest(outbound, location, { signal, bytesMax: BYTES_MAX })
      if (!response.ok) throw toBrokenRegistry(`answered ${response.status}`)
      return readResponseText(response)
    },
    options.retryTimer ?? retryTimer,
    signal,
  )
}

async function readList(path: string): Promise<string> {
  const file = await stat(path).catch(() => undefined)
  if (!file?.isFile()) throw toBrokenRegistry('does not exist')
  if (file.size > BYTES_MAX) throw toBrokenRegistry(`has more than ${BYTES_MAX} bytes`)
  return readFile(path, 'utf8')
}

type RegistryJsonResolveOptions = { registry: string; allowed: AllowedLocations }

function resolve(
  entry: RegistryJsonEntry,
  { org, name, ref }: DatasetReference,
  { registry, allowed }: RegistryJsonResolveOptions,
): Resolution {
  if (entry.tasks.length === 0) return { kind: 'empty' }
  try {
    const tasks = resolveTasks(entry, org, allowed).toSorted(compareTaskNames)
    const duplicate = findDuplicateName(tasks)
    if (duplicate) return { kind: 'invalid', detail: `Duplicate task ${duplicate}.` }
    const { version: resolvedRef, description } = entry
    const dataset = { registry, org, name, ref: formatRef(ref), resolvedRef, revision: null, description }
    return { kind: 'found', dataset: { ...dataset, digest: null, tasks, files: [] } }
  } catch (error) {
    if (error instanceof EntryInvalid) return { kind: 'invalid', detail: error.message }
    throw error
  }
}

type TaskFetchContext = { checkouts: Checkouts; root: string | undefined; signal: AbortSignal }

/** Packs the folder of a task. Links may lead anywhere on this machine, so the resolved folder must be inside. */
async function fetchTask({ at }: ResolvedTask, { checkouts, root, signal }: TaskFetchContext): Promise<Readable> {
  if (at.kind === 'archive') throw new Error('The task was not resolved by a registry.json.')
  const files = at.kind === 'git' ? await checkouts.checkout(at, signal) : root
  const folder = files === undefined ? undefined : await resolveInside(files, at.path)
  if (folder === undefined || !(await stat(folder)).isDirectory())
    throw new TaskMissing('The folder of the task does not exist.')
  return packTask(await openFolderSource(folder))
}

/** Thrown for an invalid entry, which the author of the list has to fix. */
class EntryInvalid extends Error {
  override name = 'EntryInvalid'
}

/** Locations of tasks that a list may refer to. Git URLs of `operatorOrigin` may be private; others must be public. */
type AllowedLocations = { operatorOrigin: string | undefined; allowsFolders: boolean }

function resolveTasks(entry: RegistryJsonEntry, org: string, allowed: AllowedLocations): ResolvedTask[] {
  return entry.tasks.map((task) => {
    const [name = '', taskOrg = org, ...rest] = task.name.split('/').toReversed()
    if (rest.length > 0 || !isNamePart(taskOrg) || !isNamePart(name)) {
      throw new EntryInvalid(`${sanitizeText(task.name)} is not a valid task name.`)
    }
    return { org: taskOrg, name, digest: null, at: resolveLocation(task, allowed) }
  })
}

const COMMIT = /^([0-9a-f]{40}|[0-9a-f]{64})$/

function resolveLocation(
  { name, git_url: url, git_commit_id: commit, path }: z.infer<typeof ListedTask>,
  allowed: AllowedLocations,
): TaskLocation {
  const toInvalid = (problem: string) => new EntryInvalid(`${sanitizeText(name)}: ${problem}`)
  const cleanPath = path.replace(/^(\.\/)+/, '').replace(/\/+$/, '')
  if (cleanPath !== '' && cleanPath !== '.' && findPathFault(cleanPath))
    throw toInvalid('its path is invalid or leads out of the repository.')
  if (!url) {
    if (!allowed.allowsFolders || cleanPath === '' || cleanPath === '.') throw toInvalid('it has no git_url.')
    return { kind: 'folder', path: cleanPath }
  }
  if (!commit || !COMMIT.test(commit)) throw toInvalid('its git_commit_id must be a full commit id.')
  const refusal = findGitUrlRefusal(url, allowed.operatorOrigin)
  if (refusal) throw toInvalid(`its git_url is not allowed (${refusal}).`)
  return { kind: 'git', url, commit, path: cleanPath === '' ? '.' : cleanPath }
}

/** Returns why a git URL is not allowed, judged by the URL alone. */
function findGitUrlRefusal(url: string, operatorOrigin: string | undefined): string | undefined {
  return isOperatorUrl(url, operatorOrigin) ? undefined : findUrlRefusal(url, 'client')
}

/**
 * Creates the check of git URLs. The author of the list chose them, so they must be https and resolve to public addresses.
 * Only the origin of the list itself, which the operator configured, may be private.
 */
export function createGitAdmission(operatorOrigin: string | undefined, resolve: Resolve): AdmitGitUrl {
  return async (url) => {
    const { protocol, href } = new URL(url)
    if (isOperatorUrl(url, operatorOrigin))
      return { url: href, protocol: protocol === 'https:' ? 'https' : 'http', pin: undefined }
    const admission = await admitAddress(url, resolve)
    if (admission.kind === 'admitted') return { url: admission.url, protocol: 'https', pin: admission.pin }
    const isPermanent = admission.reason !== 'unresolved'
    throw new RegistryUnavailable(`The git host ${admission.host} does not have a public address.`, { isPermanent })
  }
}

function isOperatorUrl(url: string, operatorOrigin: string | undefined): boolean {
  const parsed = URL.parse(url)
  if (!parsed || operatorOrigin === undefined || !['https:', 'http:'].includes(parsed.protocol)) return false
  return (
    parsed.origin === operatorOrigin && isCanonical(url, parsed) && parsed.username === '' && parsed.password === ''
  )
}
