import { copyFile, mkdtemp, realpath, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { createEmptyRepository, GitFailed, runGit } from '../../platform/git/git.ts'
import type { GitLocation } from '../../platform/git/settings.ts'

/** Thrown for a folder that is not a readable repository. The message is shown to the user who named it. */
export class RepositoryUnreadable extends Error {
  override name = 'RepositoryUnreadable'
}

const TIMEOUT_MS = 30_000

type CloneOptions = { signal: AbortSignal; branch?: string | undefined }

/** Opens a clone on this machine, bare or with a working tree. Throws RepositoryUnreadable. */
export async function openClone(folder: string, { signal, branch }: CloneOptions): Promise<ReadableRepository> {
  const location = await toGitLocation(folder)
  const git = async (...args: string[]) =>
    (await runGit(location, args, { signal, timeoutMs: TIMEOUT_MS })).toString().trim()
  const answer = await git('rev-parse', '--git-common-dir', '--is-shallow-repository').catch(rethrowUnreadable(folder))
  const [commonDir = '', isShallow] = answer.split('\n')
  const gitDir = isAbsolute(commonDir) ? commonDir : resolve(location.cwd, commonDir)
  const head = await git('symbolic-ref', '--quiet', 'HEAD').catch(() => '')
  const remoteHead = await git('symbolic-ref', '--quiet', 'refs/remotes/origin/HEAD').catch(() => '')
  const isDetached = head === ''
  const names = branch === undefined ? [remoteHead, head] : [`refs/heads/${branch}`, `refs/remotes/origin/${branch}`]
  const chosen = await findFirstRef(git, names)
  const tip = chosen?.id ?? (isDetached && branch === undefined ? await git('rev-parse', 'HEAD') : undefined)
  if (branch !== undefined && tip === undefined) throw new RepositoryUnreadable(`Branch not found: ${branch}.`)
  return openRepository({
    gitDir,
    objects: join(gitDir, 'objects'),
    tip,
    isShallow: isShallow === 'true',
    branch: (chosen?.name ?? head).replace(/^refs\/(heads|remotes\/[^/]+)\//, '') || 'HEAD',
    pullHeads: await listPullHeads(git),
  })
}

/**
 * Returns git settings for commands that read ref names and ids. Such commands use no diff, index or remote, so git runs
 * no code of the repository and `safe.directory=*` is safe. `ceiling`: the folder must be the repository itself, not a
 * folder inside it.
 */
async function toGitLocation(folder: string): Promise<GitLocation> {
  const cwd = await realpath(folder).catch(() => {
    throw new RepositoryUnreadable(`Folder not found: ${folder}. Check the path.`)
  })
  if (!(await stat(cwd)).isDirectory())
    throw new RepositoryUnreadable(`${folder} is a file. Name the folder of a clone.`)
  return {
    repositoryArgs: [],
    cwd,
    home: '/nonexistent',
    protocols: '',
    ceiling: dirname(cwd),
    settings: ['safe.directory=*'],
  }
}

const rethrowUnreadable =
  (folder: string) =>
  (error: unknown): never => {
    if (!(error instanceof GitFailed)) throw error
    const isNotRepository = /not a git repository/i.test(error.stderr)
    throw new RepositoryUnreadable(isNotRepository ? `${folder} is not a git repository.` : error.message)
  }

type RunRefCommand = (...args: string[]) => Promise<string>

const REF_FORMAT = '--format=%(objectname) %(refname)'

const parseRefs = (lines: string): { id: string; name: string }[] =>
  lines
    .split('\n')
    .map((line) => line.split(' '))
    .map(([id = '', name = '']) => ({ id, name }))

/** Finds the first of some refs that exists. Does not read the other refs of the repository, which may be millions. */
async function findFirstRef(git: RunRefCommand, names: readonly string[]) {
  for (const name of names) {
    // A name with wildcards is a pattern, and matches more than itself.
    const found = name === '' ? [] : parseRefs(await git('for-each-ref', '--count=1', REF_FORMAT, name))
    if (found[0]?.name === name) return found[0]
  }
  return undefined
}

/** Maximum number of pull requests whose heads are read. Parsing them blocks the event loop. */
const PULL_HEADS_MAX = 50_000
const PULL_PATTERNS = ['refs/pull', 'refs/remotes/*/pull/*', 'refs/remotes/*/pull/*/head']

/** Returns the heads of the newest pull requests by number. */
async function listPullHeads(git: RunRefCommand): Promise<Map<number, string>> {
  const options = ['--sort=-version:refname', `--count=${PULL_HEADS_MAX}`, REF_FORMAT]
  const found = new Map<number, string>()
  for (const { id, name } of parseRefs(await git('for-each-ref', ...options, ...PULL_PATTERNS))) {
    const number = /^refs\/(?:remotes\/[^/]+\/)?pull\/(\d{1,9})(?:\/head)?$/.exec(name)?.[1]
    if (number !== undefined) found.set(Number(number), id)
  }
  return found
}

/** A repository that is open for reading. Its content cannot make git run, fetch or write anything. */
export type ReadableRepository = AsyncDisposable & {
  /** Location and options for running git on this repository. */
  location: GitLocation
  /** Newest commit of the branch. Undefined for an empty repository. */
  tip: string | undefined
  /** Name of the branch that is read, without `refs/heads/`: the default branch, unless another one was chosen. */
  branch: string
  /** True if older history is missing. */
  isShallow: boolean
  /** Last commits of pull requests by number, if the repository has them. */
  pullHeads: ReadonlyMap<number, string>
}

type RepositoryDetails = Omit<ReadableRepository, 'location' | keyof AsyncDisposable> & {
  gitDir: string
  objects: string
}

/**
 * Opens a repository for reading. git runs in a new, empty repository that borrows only the objects of the given one, so
 * that its settings, hooks, attributes, grafts and remotes are never read.
 */
async function openRepository({ gitDir, objects, ...details }: RepositoryDetails): Promise<ReadableRepository> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-reading-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  try {
    await createEmptyRepository(join(folder, 'git'), details.tip)
    if (details.isShallow) await copyFile(join(gitDir, 'shallow'), join(folder, 'git', 'shallow'))
  } catch (error) {
    await remove()
    throw error
  }
  const location: GitLocation = {
    repositoryArgs: [`--git-dir=${folder}/git`],
    cwd: folder,
    protocols: '',
    objects,
    // A commit-graph file is untrusted, unlike commits, whose ids are verified.
    settings: ['core.commitGraph=false', 'core.quotePath=true', 'diff.renameLimit=400', 'i18n.logOutputEncoding=UTF-8'],
  }
  return { ...details, location, [Symbol.asyncDispose]: remove }
}
