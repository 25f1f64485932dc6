import { GitFailed } from '../../platform/git/git.ts'
import type { GitLocation } from '../../platform/git/settings.ts'
import { MirrorRefused } from '../../repos/mirror/source.ts'
import { type OpenSubmodule, readSubmoduleUrls } from '../../repos/mirror/submodules.ts'
import type { GitObjects } from '../candidates/tree-pairs.ts'
import { done, reject, type StageResult } from '../stage-result.ts'
import { type BaseTree, findSizeFault, findTreeFault, readTree, type TreeEntry } from './read-tree.ts'

/** Files of a submodule, with paths in the superproject. */
export type SubmoduleFiles = { location: GitLocation; entries: readonly TreeEntry[] }

/** A repository that can open its submodules. Those that it cannot open stay empty. */
export type SubmoduleObjects = GitObjects & {
  openSubmodule?: OpenSubmodule | undefined
  /** Keeps mirrors open until the caller has read the files. */
  keep(mirror: AsyncDisposable): void
}

const SUBMODULES_MAX = 20
const DEPTH_MAX = 3
const FILES_MAX = 100_000

/**
 * Reads the files of all submodules of a tree, also nested ones, at the commits that the tree names. A submodule without
 * an address stays empty, as in git. One that cannot be fetched rejects the candidate; an outage throws MirrorRefused.
 */
export async function readSubmodules(
  repository: SubmoduleObjects,
  tree: BaseTree,
  signal: AbortSignal,
): Promise<StageResult<SubmoduleFiles[]>> {
  const submodules: SubmoduleFiles[] = []
  const parents: ParentTree[] = [{ objects: repository, tree, prefix: '', depth: 0 }]
  // Nested submodules are appended while the list is read.
  for (const parent of parents) {
    const listed = await listSubmodules(parent, signal)
    const fault =
      typeof listed === 'string' ? listed : await fetchAll(listed, { repository, submodules, parents, signal })
    if (fault) return reject('submodule_unavailable', fault)
  }
  const entries = [...tree.entries, ...submodules.flatMap((each) => each.entries)]
  if (entries.length > FILES_MAX)
    return reject('too_large', `With submodules the tree has more than ${FILES_MAX} files.`)
  const tooLarge = findSizeFault(entries)
  if (tooLarge) return reject('too_large', tooLarge)
  const badPath = findTreeFault(entries.map(({ path }) => path))
  return badPath ? reject('env_build_failed', badPath) : done(submodules)
}

type ParentTree = {
  objects: GitObjects & { openSubmodule?: OpenSubmodule | undefined }
  tree: BaseTree
  prefix: string
  depth: number
}

/** A submodule with an address. `prefix` is its path in the outermost repository, with a slash. */
type ListedSubmodule = { prefix: string; url: string; commit: string; depth: number; open: OpenSubmodule }

/** Lists the submodules of a tree that have an address. Returns a fault if `.gitmodules` is not valid. */
async function listSubmodules(parent: ParentTree, signal: AbortSignal): Promise<ListedSubmodule[] | string> {
  const { tree, objects, prefix, depth } = parent
  const { openSubmodule: open } = objects
  const file = tree.entries.find(({ path, kind }) => path === '.gitmodules' && kind !== 'link')
  if (!open || !file || tree.gitlinks.length === 0) return []
  try {
    const urls = await readSubmoduleUrls(objects.location, file.id, signal)
    return tree.gitlinks.flatMap(({ path, commit }) => {
      const url = urls.get(path)
      return url === undefined ? [] : [{ prefix: `${prefix}${path}/`, url, commit, depth: depth + 1, open }]
    })
  } catch (error) {
    if (error instanceof GitFailed) return `${prefix}.gitmodules is not valid.`
    throw error
  }
}

type FetchContext = {
  repository: SubmoduleObjects
  submodules: SubmoduleFiles[]
  parents: ParentTree[]
  signal: AbortSignal
}

/** Fetches the files of submodules and adds them to the context. Returns the first fault. */
async function fetchAll(listed: readonly ListedSubmodule[], context: FetchContext): Promise<string | undefined> {
  for (const submodule of listed) {
    if (countFiles(context.submodules) > FILES_MAX) return undefined // `readSubmodules` rejects the tree
    const fault = await fetchFiles(submodule, context).catch(describeRefusal)
    if (fault !== undefined) return `${JSON.stringify(submodule.prefix)}: ${fault}`
  }
  return undefined
}

const countFiles = (submodules: readonly SubmoduleFiles[]): number =>
  submodules.reduce((sum, { entries }) => sum + entries.length, 0)

/** Returns the message of a permanent refusal. Throws other errors: an outage of the server says nothing about the candidate. */
function describeRefusal(error: unknown): string {
  if (error instanceof MirrorRefused && error.isPermanent) return error.message
  throw error
}

async function fetchFiles(
  { prefix, url, commit, depth, open }: ListedSubmodule,
  { repository, submodules, parents, signal }: FetchContext,
): Promise<string | undefined> {
  if (depth > DEPTH_MAX) return `Submodules are nested more than ${DEPTH_MAX} levels deep.`
  if (submodules.length >= SUBMODULES_MAX) return `There are more than ${SUBMODULES_MAX} submodules.`
  const objects = await open(url, commit)
  repository.keep(objects)
  const tree = await readTree(objects, commit, signal)
  if (tree.kind !== 'done') return tree.detail
  submodules.push({
    location: objects.location,
    entries: tree.value.entries.map((entry) => ({ ...entry, path: prefix + entry.path })),
  })
  parents.push({ objects, tree: tree.value, prefix, depth })
  return undefined
}
