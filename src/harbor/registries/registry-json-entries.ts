import { z } from 'zod'
import { compareCodePoints, findPathFault } from '../paths.ts'
import { sanitizeText } from '../report.ts'
import { findGitUrlRefusal } from './git-address.ts'
import { type DatasetReference, formatRef, isNamePart, LATEST } from './reference.ts'
import type { ResolvedTask, TaskLocation } from './registry.ts'

/** Organisation of names without one in a registry.json. */
const BARE_ORG = 'registry'

const ListedTask = z.object({
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

/** Parses a registry.json. Returns undefined if it is invalid. */
export function parseEntries(text: string): RegistryJsonEntry[] | undefined {
  try {
    return z.array(RegistryJsonEntry).safeParse(JSON.parse(text)).data
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Finds the version that a reference names. The text after the @ is always a version, not a revision or a digest. */
export function findEntry(
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

export const listEntries = (
  entries: readonly RegistryJsonEntry[],
  { org, name }: Pick<DatasetReference, 'org' | 'name'>,
): RegistryJsonEntry[] =>
  entries.filter((entry) => entry.name === `${org}/${name}` || (org === BARE_ORG && entry.name === name))

/** Thrown for an invalid entry, which the author of the list has to fix. */
export class EntryInvalid extends Error {
  override name = 'EntryInvalid'
}

/** Locations that a list may refer to. */
export type AllowedLocations = { operatorOrigin: string | undefined; hasFolder: boolean }

export function resolveTasks(entry: RegistryJsonEntry, org: string, reach: AllowedLocations): ResolvedTask[] {
  return entry.tasks.map((task) => {
    const [own = '', ...rest] = task.name.split('/').toReversed()
    const name = { org: rest[0] ?? org, name: own }
    if (rest.length > 1 || !isNamePart(name.org) || !isNamePart(own)) {
      throw new EntryInvalid(`${sanitizeText(task.name)} is not a valid task name.`)
    }
    return { ...name, digest: null, at: resolveLocation(task, reach) }
  })
}

const COMMIT = /^([0-9a-f]{40}|[0-9a-f]{64})$/

function resolveLocation(
  { name, git_url: url, git_commit_id: commit, path }: z.infer<typeof ListedTask>,
  reach: AllowedLocations,
): TaskLocation {
  const fail = (why: string) => new EntryInvalid(`${sanitizeText(name)}: ${why}`)
  const clean = path.replace(/^(\.\/)+/, '').replace(/\/+$/, '')
  if (clean !== '' && clean !== '.' && findPathFault(clean))
    throw fail('its path is invalid or leads out of the repository.')
  if (!url) {
    if (!reach.hasFolder || clean === '' || clean === '.') throw fail('it has no git_url.')
    return { kind: 'folder', path: clean }
  }
  if (!commit || !COMMIT.test(commit)) throw fail('its git_commit_id must be a full commit id.')
  const refusal = findGitUrlRefusal(url, reach.operatorOrigin)
  if (refusal) throw fail(`its git_url is not allowed (${refusal}).`)
  return { kind: 'git', url, commit, path: clean === '' ? '.' : clean }
}

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
const FINAL = 3
const PARTS_MAX = 8

/** Converts a version to numbers that are compared lexicographically. */
function rankVersion(text: string): number[] | undefined {
  const { epoch, release = '', stage, pre, post, dev } = VERSION.exec(text)?.groups ?? {}
  if (release === '') return undefined
  const parts = release.split('.').map(Number)
  const padded = Array.from({ length: PARTS_MAX }, (_, place) => parts[place] ?? 0)
  return [
    Number(epoch ?? 0),
    ...padded,
    ...rankSuffix(stage, pre, dev, post),
    ...rankNumber(post, -1),
    ...rankNumber(dev, 1e9),
  ]
}

/** Ranks pre-releases. A plain development version precedes all other versions of its release. */
function rankSuffix(stage: string | undefined, pre: string | undefined, dev?: string, post?: string): number[] {
  if (stage !== undefined) return [STAGES[stage.toLowerCase()] ?? 0, Number(pre || 0)]
  return dev !== undefined && post === undefined ? [-1, 0] : [FINAL, 0]
}

const rankNumber = (number: string | undefined, whenAbsent: number): number[] => [
  number === undefined ? whenAbsent : Number(number || 0),
]

function compareRanks(a: readonly number[], b: readonly number[]): number {
  const place = a.findIndex((value, at) => value !== b[at])
  return place < 0 ? 0 : (a[place] ?? 0) - (b[place] ?? 0)
}
