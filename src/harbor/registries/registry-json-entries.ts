import { z } from 'zod'
import { pathFault } from '../path-rules.ts'
import { shown } from '../report.ts'
import { gitUrlRefusal } from './git-address.ts'
import { newestVersion } from './newest-version.ts'
import { isPart, LATEST, type Reference, refText } from './reference.ts'
import type { ResolvedTask, TaskPlace } from './registry.ts'

/** Names of a registry.json have no organisation; in references they get this one. */
const BARE_ORG = 'registry'

const ListedTask = z.object({
  name: z.string(),
  git_url: z.string().nullish(),
  git_commit_id: z.string().nullish(),
  path: z.string(),
})
const Entry = z.object({
  name: z.string(),
  version: z.string(),
  description: z.string().default(''),
  tasks: z.array(ListedTask),
})
export type Entry = z.infer<typeof Entry>

/** Undefined when it is no registry.json. */
export function readEntries(text: string): Entry[] | undefined {
  try {
    return z.array(Entry).safeParse(JSON.parse(text)).data
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** The version that a reference names. There are neither revisions nor digests: what stands after the @ is a version. */
export function entryNamed(entries: readonly Entry[], { org, name, ref }: Reference): Entry | undefined {
  const named = entriesCalled(entries, { org, name })
  const text = refText(ref)
  const exact = named.find(({ version }) => version === text)
  if (exact || text !== LATEST) return exact
  const newest = newestVersion(named.map(({ version }) => version))
  return named.find(({ version }) => version === newest)
}

export const entriesCalled = (entries: readonly Entry[], { org, name }: Pick<Reference, 'org' | 'name'>): Entry[] =>
  entries.filter((entry) => entry.name === `${org}/${name}` || (org === BARE_ORG && entry.name === name))

/** Thrown for a list that somebody has to mend. */
export class EntryInvalid extends Error {
  override name = 'EntryInvalid'
}

/** Where lists may point to. */
export type Reach = { operatorOrigin: string | undefined; hasFolder: boolean }

export function tasksOf(entry: Entry, org: string, reach: Reach): ResolvedTask[] {
  return entry.tasks.map((task) => {
    const [own = '', ...rest] = task.name.split('/').toReversed()
    const name = { org: rest[0] ?? org, name: own }
    if (rest.length > 1 || !isPart(name.org) || !isPart(own)) {
      throw new EntryInvalid(`${shown(task.name)} is no name for a task.`)
    }
    return { ...name, digest: null, at: placeOf(task, reach) }
  })
}

const COMMIT = /^([0-9a-f]{40}|[0-9a-f]{64})$/

function placeOf(
  { name, git_url: url, git_commit_id: commit, path }: z.infer<typeof ListedTask>,
  reach: Reach,
): TaskPlace {
  const fail = (why: string) => new EntryInvalid(`${shown(name)}: ${why}`)
  const clean = path.replace(/^(\.\/)+/, '').replace(/\/+$/, '')
  if (clean !== '' && clean !== '.' && pathFault(clean)) throw fail('its path leads out, or is none.')
  if (!url) {
    if (!reach.hasFolder || clean === '' || clean === '.') throw fail('it has no git_url.')
    return { kind: 'folder', path: clean }
  }
  if (!commit || !COMMIT.test(commit))
    throw fail('its git_commit_id must be a whole commit id: what is not pinned can change.')
  const refusal = gitUrlRefusal(url, reach.operatorOrigin)
  if (refusal) throw fail(`its git_url is not used (${refusal}).`)
  return { kind: 'git', url, commit, path: clean === '' ? '.' : clean }
}
