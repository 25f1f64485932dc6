import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createEmptyRepository } from '../../platform/git/git.ts'
import type { GitLocation } from '../../platform/git/settings.ts'

/** A repository that is open for reading. Its content cannot make git run, fetch or write anything. */
export type ReadableRepository = AsyncDisposable & {
  place: GitLocation
  /** Newest commit of the default branch. Undefined for an empty repository. */
  tip: string | undefined
  /** Name of the default branch, without `refs/heads/`. */
  branch: string
  /** Older history is missing. */
  isShallow: boolean
  /** Last commits of pull requests by number, if the repository has them. */
  pullHeads: ReadonlyMap<number, string>
}

export type RepositoryFacts = Omit<ReadableRepository, 'place' | keyof AsyncDisposable> & {
  gitDir: string
  objects: string
}

/**
 * Opens a repository for reading. git runs in a new, empty repository that borrows only the objects of the given one, so
 * that its settings, hooks, attributes, grafts and remotes are never read.
 */
export async function openRepository({ gitDir, objects, ...facts }: RepositoryFacts): Promise<ReadableRepository> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-reading-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  try {
    await createEmptyRepository(join(folder, 'git'), facts.tip)
    if (facts.isShallow) await copyFile(join(gitDir, 'shallow'), join(folder, 'git', 'shallow'))
  } catch (error) {
    await remove()
    throw error
  }
  const place: GitLocation = {
    where: [`--git-dir=${folder}/git`],
    cwd: folder,
    protocols: '',
    objects,
    // A commit-graph file is untrusted, unlike commits, whose ids are verified.
    settings: ['core.commitGraph=false', 'core.quotePath=true', 'diff.renameLimit=400', 'i18n.logOutputEncoding=UTF-8'],
  }
  return { ...facts, place, [Symbol.asyncDispose]: remove }
}
