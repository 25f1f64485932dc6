import { readFile, stat } from 'node:fs/promises'
import { resolve as absolute, dirname } from 'node:path'
import type { Readable } from 'node:stream'
import { type ResolveName, resolveName } from '../../platform/git/address.ts'
import { GIT_MEMORY_KIB } from '../../platform/git/git.ts'
import type { Outbound } from '../../platform/outbound/outbound.ts'
import { openFolderSource } from '../folder-source.ts'
import { packTask } from '../pack.ts'
import { type Checkouts, openCheckouts } from './checkouts.ts'
import type { GitLog } from './git.ts'
import { createGitAdmission } from './git-address.ts'
import { resolveInside } from './inside.ts'
import { type DatasetReference, formatRef } from './reference.ts'
import {
  compareTaskNames,
  findDuplicateName,
  type Registry,
  RegistryUnavailable,
  type Resolution,
  type ResolvedTask,
  TASKS_MAX,
  TaskMissing,
} from './registry.ts'
import {
  type AllowedLocations,
  EntryInvalid,
  findEntry,
  listEntries,
  parseEntries,
  type RegistryJsonEntry,
  resolveTasks,
} from './registry-json-entries.ts'
import { readResponseText, sendRegistryRequest } from './registry-request.ts'
import { type RetryTimer, retryTimer, retryUnavailable } from './retry.ts'

export type RegistryJsonOptions = {
  name: string
  /** URL or file path. */
  location: string
  outbound: Outbound
  /** Folder for clones, which are deleted when the dataset is closed. */
  scratch: string
  retryTimer?: RetryTimer
  resolveName?: ResolveName
  /** Memory limit of git. */
  gitMemoryKib?: number
  log?: GitLog | undefined
}

const BYTES_MAX = 32 * 1024 * 1024

/** Opens Harbor's older format for lists of datasets. It pins commits, so digests are known only after the download. */
export function openRegistryJson(options: RegistryJsonOptions): Registry {
  const { name, location } = options
  const isUrl = /^https?:/.test(location)
  const reach: AllowedLocations = { operatorOrigin: isUrl ? new URL(location).origin : undefined, hasFolder: !isUrl }
  const root = isUrl ? undefined : dirname(absolute(location))
  return {
    name,
    async resolve(reference, { signal, tasksMax = TASKS_MAX }) {
      const text = isUrl ? await download(options, signal) : await readList(location)
      const entries = parseEntries(text)
      if (!entries) throw toBrokenRegistry('is not a valid registry.json')
      const entry = findEntry(entries, reference)
      if (entry) return resolve(entry, reference, { registry: name, reach, tasksMax })
      const versions = listEntries(entries, reference).map(({ version }) => version)
      return versions.length > 0 ? { kind: 'other_versions', registry: name, versions } : { kind: 'unknown' }
    },
    async open(dataset) {
      const admit = createGitAdmission(reach.operatorOrigin, options.resolveName ?? resolveName)
      const memoryKib = options.gitMemoryKib ?? GIT_MEMORY_KIB
      const checkouts = await openCheckouts(dataset.tasks, options.scratch, { admit, memoryKib, log: options.log })
      return {
        fetch: (task, signal) => fetchTask(task, { checkouts, root, signal }),
        [Symbol.asyncDispose]: () => checkouts[Symbol.asyncDispose](),
      }
    },
  }
}

const toBrokenRegistry = (why: string) =>
  new RegistryUnavailable(`The registry.json in ASSAY_REGISTRIES ${why}.`, { isLasting: true })

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
  const found = await stat(path).catch(() => undefined)
  if (!found?.isFile()) throw toBrokenRegistry('does not exist')
  if (found.size > BYTES_MAX) throw toBrokenRegistry('is too large')
  return readFile(path, 'utf8')
}

type RegistryJsonResolveOptions = { registry: string; reach: AllowedLocations; tasksMax: number }

function resolve(
  entry: RegistryJsonEntry,
  { org, name, ref }: DatasetReference,
  { registry, reach, tasksMax }: RegistryJsonResolveOptions,
): Resolution {
  if (entry.tasks.length === 0) return { kind: 'empty' }
  if (entry.tasks.length > tasksMax) return { kind: 'too_many', count: entry.tasks.length }
  try {
    const tasks = resolveTasks(entry, org, reach).toSorted(compareTaskNames)
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
