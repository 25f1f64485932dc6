import { z } from 'zod'
import { serveTasks } from '../../platform/threads.ts'
import { parseUntrustedJson } from '../../platform/untrusted-json.ts'
import { compareCodePoints } from '../paths.ts'
import { sanitizeText } from '../report.ts'
import { type DatasetReference, formatRef, LATEST } from './registry.ts'

/** Tasks of the threads that read lists of datasets. */
const tasks = { lookUpInList }
export type ListTasks = typeof tasks

serveTasks(tasks)

export type ListLookupInput = { text: string; reference: DatasetReference; tasksMax: number }

/** Result of a lookup, small enough for the event loop. */
export type ListLookup =
  | { kind: 'broken' }
  | { kind: 'found'; entry: RegistryJsonEntry }
  | { kind: 'too_many'; count: number }
  | { kind: 'other_versions'; versions: string[] }

/** Maximum number of versions that are listed if the requested one does not exist. */
const VERSIONS_MAX = 100

/**
 * Parses a registry.json and finds the version that a reference names. Runs in a thread, because a list has up to 32 MiB
 * and is untrusted.
 */
export function lookUpInList({ text, reference, tasksMax }: ListLookupInput): ListLookup {
  const entries = parseEntries(text)
  if (!entries) return { kind: 'broken' }
  const entry = findEntry(entries, reference)
  if (entry && entry.tasks.length > tasksMax) return { kind: 'too_many', count: entry.tasks.length }
  if (entry) return { kind: 'found', entry }
  const versions = listEntries(entries, reference).map(({ version }) => sanitizeText(version))
  return { kind: 'other_versions', versions: versions.slice(0, VERSIONS_MAX) }
}

/** Organisation of datasets whose name in a registry.json has none. */
const DEFAULT_ORG = 'registry'

export const ListedTask = z.object({
  name: z.string(),
  git_url: z.string().nullish(),
  git_commit_id: z.string().nullish(),
  path: z.string(),
})
const RegistryJsonEntry = z.object({
  name: z.string(),
  version: z.string(),
  description: z.string().default(''),
  tasks: z.array(ListedTask),
})
export type RegistryJsonEntry = z.infer<typeof RegistryJsonEntry>

/** Maximum number of values in a list. A task has five. */
const VALUES_MAX = 3_000_000

/** Parses a registry.json. Returns undefined if it is invalid; stops at the first invalid entry. */
function parseEntries(text: string): RegistryJsonEntry[] | undefined {
  const listed = parseUntrustedJson(text, { valuesMax: VALUES_MAX })
  if (!Array.isArray(listed)) return undefined
  const entries: RegistryJsonEntry[] = []
  for (const each of listed) {
    const { data } = RegistryJsonEntry.safeParse(each)
    if (!data) return undefined
    entries.push(data)
  }
  return entries
}

/** Finds the version that a reference names. The text after the @ is always a version, not a revision or a digest. */
function findEntry(
  entries: readonly RegistryJsonEntry[],
  { org, name, ref }: DatasetReference,
): RegistryJsonEntry | undefined {
  const named = listEntries(entries, { org, name })
  const text = formatRef(ref)
  const exact = named.find(({ version }) => version === text)
  if (exact || text !== LATEST) return exact
  const newest = findNewestVersion(named.map(({ version }) => version))
  return named.find(({ version }) => version === newest)
}

const listEntries = (
  entries: readonly RegistryJsonEntry[],
  { org, name }: Pick<DatasetReference, 'org' | 'name'>,
): RegistryJsonEntry[] =>
  entries.filter((entry) => entry.name === `${org}/${name}` || (org === DEFAULT_ORG && entry.name === name))

/** Returns the default version as Harbor does: head, else the highest version number, else the last in sort order. */
export function findNewestVersion(versions: readonly string[]): string | undefined {
  if (versions.includes('head')) return 'head'
  const numbered = versions.flatMap((text) => {
    const rank = rankVersion(text)
    return rank ? [{ text, rank }] : []
  })
  if (numbered.length > 0) return numbered.toSorted((a, b) => compareRanks(a.rank, b.rank)).at(-1)?.text
  return versions.toSorted(compareCodePoints).at(-1)
}

/** PEP 440 version without local part, for example `1!2.0rc1.post2.dev3`. */
const VERSION =
  /^v?(?:(?<epoch>\d{1,9})!)?(?<release>\d{1,9}(?:\.\d{1,9})*)(?:[._-]?(?<stage>a|b|rc|alpha|beta|c)[._-]?(?<pre>\d{0,9}))?(?:[._-]?post[._-]?(?<post>\d{0,9}))?(?:[._-]?dev[._-]?(?<dev>\d{0,9}))?$/i
const STAGES: Record<string, number> = { a: 0, alpha: 0, b: 1, beta: 1, c: 2, rc: 2 }
const FINAL_STAGE = 3
/** Rank of a version that is not a development version. Greater than every number of nine digits. */
const NO_DEV_RANK = 1e9
/** Number of release parts that are compared. Missing ones count as 0, so that `1.2` equals `1.2.0`. */
const PARTS_MAX = 8

/** Converts a version to numbers that are compared lexicographically. */
function rankVersion(text: string): number[] | undefined {
  const { epoch, release = '', stage, pre, post, dev } = VERSION.exec(text)?.groups ?? {}
  if (release === '') return undefined
  const parts = release.split('.').map(Number)
  const padded = Array.from({ length: PARTS_MAX }, (_, index) => parts[index] ?? 0)
  return [
    Number(epoch ?? 0),
    ...padded,
    ...rankSuffix(stage, pre, dev, post),
    post === undefined ? -1 : Number(post),
    dev === undefined ? NO_DEV_RANK : Number(dev),
  ]
}

/** Ranks pre-releases. A plain development version precedes all other versions of its release. */
function rankSuffix(stage: string | undefined, pre = '', dev?: string, post?: string): number[] {
  if (stage !== undefined) return [STAGES[stage.toLowerCase()] ?? 0, Number(pre)]
  return dev !== undefined && post === undefined ? [-1, 0] : [FINAL_STAGE, 0]
}

function compareRanks(a: readonly number[], b: readonly number[]): number {
  const differing = a.findIndex((value, index) => value !== b[index])
  return differing < 0 ? 0 : (a[differing] ?? 0) - (b[differing] ?? 0)
}
