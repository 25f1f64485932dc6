import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeEmptyRepository } from '../../platform/git/empty-repository.ts'
import type { GitPlace } from '../../platform/git/settings.ts'

/** A repository that is open for reading. Nothing in it can make git run, fetch or write anything. */
export type Reading = AsyncDisposable & {
  place: GitPlace
  /** The newest commit of the default branch. Undefined: there is none yet. */
  tip: string | undefined
  /** What the default branch is called, without `refs/heads/`. */
  branch: string
  /** Older history is not there. */
  isShallow: boolean
  /** Where pull requests ended, by number, as far as the repository keeps them. */
  pullHeads: ReadonlyMap<number, string>
}

export type Found = Omit<Reading, 'place' | keyof AsyncDisposable> & { gitDir: string; objects: string }

/**
 * git starts in an empty repository of our own that borrows only the objects of the other one. So its settings,
 * hooks, attributes, grafts and remotes are never read, whatever git learns to do with them one day.
 */
export async function openForReading({ gitDir, objects, ...facts }: Found): Promise<Reading> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-reading-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  try {
    await makeEmptyRepository(join(folder, 'git'), facts.tip)
    if (facts.isShallow) await copyFile(join(gitDir, 'shallow'), join(folder, 'git', 'shallow'))
  } catch (error) {
    await remove()
    throw error
  }
  const place: GitPlace = {
    where: [`--git-dir=${folder}/git`],
    cwd: folder,
    protocols: '',
    objects,
    // A graph of commits is a file that the other side wrote; the commits themselves cannot lie.
    settings: ['core.commitGraph=false', 'core.quotePath=true', 'diff.renameLimit=400', 'i18n.logOutputEncoding=UTF-8'],
  }
  return { ...facts, place, [Symbol.asyncDispose]: remove }
}
