import { realpath, stat } from 'node:fs/promises'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { GitFailed, runGit } from '../../platform/git/git.ts'
import type { GitPlace } from '../../platform/git/settings.ts'
import { openForReading, type Reading } from './reading.ts'

/** What is there cannot be read as a repository. The message says why, to whoever named it. */
export class RepositoryUnreadable extends Error {
  override name = 'RepositoryUnreadable'
}

const LOOK_MS = 30_000

export type CloneOptions = { signal: AbortSignal; branch?: string | undefined }

/** A clone on this machine, bare or with a working tree. Throws RepositoryUnreadable. */
export async function openClone(folder: string, { signal, branch }: CloneOptions): Promise<Reading> {
  const place = await placeOf(folder)
  const ask = async (...args: string[]) => (await runGit(place, args, { signal, timeoutMs: LOOK_MS })).toString().trim()
  const where = await ask('rev-parse', '--git-common-dir', '--is-shallow-repository').catch(asUnreadable(folder))
  const [gitDir = '', isShallow] = where.split('\n')
  const common = isAbsolute(gitDir) ? gitDir : resolve(place.cwd, gitDir)
  const names = (await ask('for-each-ref', '--format=%(objectname) %(refname) %(symref)')).split('\n')
  const refs = new Map(names.map((line) => line.split(' ')).map(([id = '', name = '', to = '']) => [name, { id, to }]))
  const head = await ask('symbolic-ref', '--quiet', 'HEAD').catch(() => '')
  const chosen = defaultBranch(refs, head, branch)
  const tip = refs.get(chosen)?.id ?? (head === '' && branch === undefined ? await ask('rev-parse', 'HEAD') : undefined)
  if (branch !== undefined && tip === undefined) throw new RepositoryUnreadable(`There is no branch ${branch}.`)
  return openForReading({
    ...{ gitDir: common, objects: join(common, 'objects'), tip, isShallow: isShallow === 'true' },
    branch: chosen.replace(/^refs\/(heads|remotes\/[^/]+)\//, '') || 'HEAD',
    pullHeads: pullHeadsOf(refs),
  })
}

/**
 * Only ref names and ids are asked for here, in which git runs nothing of the repository: no diff, no index, no
 * remote. Whose folder it is does not matter then. It must be the repository itself, not a folder somewhere in one.
 */
async function placeOf(folder: string): Promise<GitPlace> {
  const cwd = await realpath(folder).catch(() => {
    throw new RepositoryUnreadable(`There is no ${folder}. Is the path right?`)
  })
  if (!(await stat(cwd)).isDirectory())
    throw new RepositoryUnreadable(`${folder} is a file. Name the folder of a clone.`)
  return { where: [], cwd, home: '/nonexistent', protocols: '', ceiling: dirname(cwd), settings: ['safe.directory=*'] }
}

const asUnreadable =
  (folder: string) =>
  (error: unknown): never => {
    if (!(error instanceof GitFailed)) throw error
    const isNone = /not a git repository/i.test(error.stderr)
    throw new RepositoryUnreadable(isNone ? `${folder} is not a git repository.` : error.message)
  }

type Refs = ReadonlyMap<string, { id: string; to: string }>

/** What was asked for; what the remote calls its own; what is checked out. */
function defaultBranch(refs: Refs, head: string, wanted: string | undefined): string {
  if (wanted !== undefined) {
    return refs.has(`refs/heads/${wanted}`) ? `refs/heads/${wanted}` : `refs/remotes/origin/${wanted}`
  }
  const ofRemote = refs.get('refs/remotes/origin/HEAD')?.to
  return ofRemote !== undefined && refs.has(ofRemote) ? ofRemote : head
}

function pullHeadsOf(refs: Refs): Map<number, string> {
  const found = new Map<number, string>()
  for (const [name, { id }] of refs) {
    const number = /^refs\/(?:remotes\/[^/]+\/)?pull\/(\d{1,9})(?:\/head)?$/.exec(name)?.[1]
    if (number !== undefined) found.set(Number(number), id)
  }
  return found
}
