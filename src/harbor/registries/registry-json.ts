import { readFile, stat } from 'node:fs/promises'
import { resolve as absolute, dirname } from 'node:path'
import type { Readable } from 'node:stream'
import { type ResolveName, resolveName } from '../../platform/git/address.ts'
import { GIT_MEMORY_KIB } from '../../platform/git/git.ts'
import type { Outbound } from '../../platform/outbound/outbound.ts'
import { inFolder } from '../folder-source.ts'
import { pack } from '../pack.ts'
import { ask, textOf } from './ask.ts'
import { type Checkouts, openCheckouts } from './checkouts.ts'
import type { GitLog } from './git.ts'
import { admitGit } from './git-address.ts'
import { inside } from './inside.ts'
import { type Patience, patience, patiently } from './patience.ts'
import { type Reference, refText } from './reference.ts'
import {
  type Registry,
  RegistryUnavailable,
  type Resolution,
  type ResolvedTask,
  TASKS_MAX,
  TaskMissing,
} from './registry.ts'
import {
  type Entry,
  EntryInvalid,
  entriesCalled,
  entryNamed,
  type Reach,
  readEntries,
  tasksOf,
} from './registry-json-entries.ts'
import { doubled, inOrder } from './task-names.ts'

export type RegistryJsonOptions = {
  name: string
  /** An http or https URL, or the path of a file. */
  location: string
  outbound: Outbound
  /** Where repositories are cloned to. They go when the dataset is closed. */
  scratch: string
  patience?: Patience
  resolveName?: ResolveName
  /** What git may use. */
  gitMemoryKib?: number
  log?: GitLog | undefined
}

const BYTES_MAX = 32 * 1024 * 1024

/** Harbor's older list of datasets. It pins commits, not content: digests are known after the download. */
export function registryJson(options: RegistryJsonOptions): Registry {
  const { name, location } = options
  const isUrl = /^https?:/.test(location)
  const reach: Reach = { operatorOrigin: isUrl ? new URL(location).origin : undefined, hasFolder: !isUrl }
  const root = isUrl ? undefined : dirname(absolute(location))
  return {
    name,
    async resolve(reference, { signal, tasksMax = TASKS_MAX }) {
      const text = isUrl ? await download(options, signal) : await readList(location)
      const entries = readEntries(text)
      if (!entries) throw broken('is no registry.json')
      const entry = entryNamed(entries, reference)
      if (entry) return resolve(entry, reference, { registry: name, reach, tasksMax })
      const versions = entriesCalled(entries, reference).map(({ version }) => version)
      return versions.length > 0 ? { kind: 'other_versions', registry: name, versions } : { kind: 'unknown' }
    },
    async open(dataset) {
      const admit = admitGit(reach.operatorOrigin, options.resolveName ?? resolveName)
      const memoryKib = options.gitMemoryKib ?? GIT_MEMORY_KIB
      const checkouts = await openCheckouts(dataset.tasks, options.scratch, { admit, memoryKib, log: options.log })
      return {
        fetch: (task, signal) => fetchTask(task, { checkouts, root, signal }),
        [Symbol.asyncDispose]: () => checkouts[Symbol.asyncDispose](),
      }
    },
  }
}

const broken = (why: string) =>
  new RegistryUnavailable(`What ASSAY_REGISTRIES names as registry.json ${why}.`, { isLasting: true })

async function download({ outbound, location, ...options }: RegistryJsonOptions, signal: AbortSignal): Promise<string> {
  return patiently(
    async () => {
      const response = await ask(outbound, location, { signal, bytesMax: BYTES_MAX })
      if (!response.ok) throw broken(`answered ${response.status}`)
      return textOf(response)
    },
    options.patience ?? patience,
    signal,
  )
}

async function readList(path: string): Promise<string> {
  const found = await stat(path).catch(() => undefined)
  if (!found?.isFile()) throw broken('is not there')
  if (found.size > BYTES_MAX) throw broken('is too large')
  return readFile(path, 'utf8')
}

type Wish = { registry: string; reach: Reach; tasksMax: number }

function resolve(entry: Entry, { org, name, ref }: Reference, { registry, reach, tasksMax }: Wish): Resolution {
  if (entry.tasks.length === 0) return { kind: 'empty' }
  if (entry.tasks.length > tasksMax) return { kind: 'too_many', count: entry.tasks.length }
  try {
    const tasks = tasksOf(entry, org, reach).toSorted(inOrder)
    const twice = doubled(tasks)
    if (twice) return { kind: 'invalid', detail: `${twice} is in it twice.` }
    const { version: resolvedRef, description } = entry
    const dataset = { registry, org, name, ref: refText(ref), resolvedRef, revision: null, description }
    return { kind: 'found', dataset: { ...dataset, digest: null, tasks, files: [] } }
  } catch (error) {
    if (error instanceof EntryInvalid) return { kind: 'invalid', detail: error.message }
    throw error
  }
}

type From = { checkouts: Checkouts; root: string | undefined; signal: AbortSignal }

/** A link in the repository, or beside the list, may lead anywhere on this machine: the folder must be inside. */
async function fetchTask({ at }: ResolvedTask, { checkouts, root, signal }: From): Promise<Readable> {
  if (at.kind === 'archive') throw new Error('This task was not resolved by a registry.json.')
  const files = at.kind === 'git' ? await checkouts.folderOf(at, signal) : root
  const folder = files === undefined ? undefined : await inside(files, at.path)
  if (folder === undefined || !(await stat(folder)).isDirectory()) throw new TaskMissing('Its folder is not there.')
  return pack(await inFolder(folder))
}
