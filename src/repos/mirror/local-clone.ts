import { realpath, stat } from 'node:fs/promises'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { GitFailed, runGit } from '../../platform/git/git.ts'
import type { GitLocation } from '../../platform/git/settings.ts'
import { openRepository, type ReadableRepository } from './readable-repository.ts'

/** Thrown for a folder that is not a readable repository. The message is shown to the user who named it. */
export class RepositoryUnreadable extends Error {
  override name = 'RepositoryUnreadable'
}

const TIMEOUT_MS = 30_000

export type CloneOptions = { signal: AbortSignal; branch?: string | undefined }

/** Opens a clone on this machine, bare or with a working tree. Throws RepositoryUnreadable. */
export async function openClone(folder: string, { signal, branch }: CloneOptions): Promise<ReadableRepository> {
  const place = await toGitLocation(folder)
  const ask = async (...args: string[]) =>
    (await runGit(place, args, { signal, timeoutMs: TIMEOUT_MS })).toString().trim()
  const where = await ask('rev-parse', '--git-common-dir', '--is-shallow-repository').catch(rethrowUnreadable(folder))
  const [gitDir = '', isShallow] = where.split('\n')
  const common = isAbsolute(gitDir) ? gitDir : resolve(place.cwd, gitDir)
  const names = (await ask('for-each-ref', '--format=%(objectname) %(refname) %(symref)')).split('\n')
  const refs = new Map(names.map((line) => line.split(' ')).map(([id = '', name = '', to = '']) => [name, { id, to }]))
  const head = await ask('symbolic-ref', '--quiet', 'HEAD').catch(() => '')
  const chosen = chooseBranch(refs, head, branch)
  const tip = refs.get(chosen)?.id ?? (head === '' && branch === undefined ? await ask('rev-parse', 'HEAD') : undefined)
  if (branch !== undefined && tip === undefined) throw new RepositoryUnreadable(`Branch not found: ${branch}.`)
  return openRepository({
    gitDir: common,
    objects: join(common, 'objects'),
    tip,
    isShallow: isShallow === 'true',
    branch: chosen.replace(/^refs\/(heads|remotes\/[^/]+)\//, '') || 'HEAD',
    pullHeads: listPullHeads(refs),
  })
}

/**
 * Returns git settings for reading ref names and ids, during which git runs no code of the repository (no diff, index or
 * remote). The owner of the folder therefore does not matter. The folder must be the repository itself, not one inside it.
 */
async function toGitLocation(folder: string): Promise<GitLocation> {
  const cwd = await realpath(folder).catch(() => {
    throw new RepositoryUnreadable(`Folder not found: ${folder}. Check the path.`)
  })
  if (!(await stat(cwd)).isDirectory())
    throw new RepositoryUnreadable(`${folder} is a file. Name the folder of a clone.`)
  return { where: [], cwd, home: '/nonexistent', protocols: '', ceiling: dirname(cwd), settings: ['safe.directory=*'] }
}

const rethrowUnreadable =
  (folder: string) =>
  (error: unknown): never => {
    if (!(error instanceof GitFailed)) throw error
    const isNotRepository = /not a git repository/i.test(error.stderr)
    throw new RepositoryUnreadable(isNotRepository ? `${folder} is not a git repository.` : error.message)
  }

type Refs = ReadonlyMap<string, { id: string; to: string }>

/** Returns the requested branch, else the default branch of the remote, else the checked-out branch. */
function chooseBranch(refs: Refs, head: string, wanted: string | undefined): string {
  if (wanted !== undefined) {
    return refs.has(`refs/heads/${wanted}`) ? `refs/heads/${wanted}` : `refs/remotes/origin/${wanted}`
  }
  const ofRemote = refs.get('refs/remotes/origin/HEAD')?.to
  return ofRemote !== undefined && refs.has(ofRemote) ? ofRemote : head
}

function listPullHeads(refs: Refs): Map<number, string> {
  const found = new Map<number, string>()
  for (const [name, { id }] of refs) {
    const number = /^refs\/(?:remotes\/[^/]+\/)?pull\/(\d{1,9})(?:\/head)?$/.exec(name)?.[1]
    if (number !== undefined) found.set(Number(number), id)
  }
  return found
}
