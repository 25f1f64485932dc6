import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { shareSuccessByKey } from '../../platform/concurrency.ts'
import { GitFailed, LIMIT_EXCEEDED, runGit } from '../../platform/git/git.ts'
import type { PinnedServer } from '../../platform/outbound/pinned-connections.ts'
import { ArchiveRefused } from '../archive-stream.ts'
import { RegistryUnavailable, type ResolvedTask, type TaskLocation, TaskMissing } from './registry.ts'

type GitTask = Extract<TaskLocation, { kind: 'git' }>

/** Checks a git URL. git must use the returned `url`, which is the parsed form. */
export type AdmitGitUrl = (url: string) => Promise<Pick<GitCheckout, 'protocol' | 'pin'> & { url: string }>

/** Clones of the repositories of a dataset: one per repository and commit, with the folders of all its tasks. */
export type Checkouts = AsyncDisposable & {
  /** Returns the folder with the files of the commit. */
  checkout(task: GitTask, signal: AbortSignal): Promise<string>
}

export async function openCheckouts(
  tasks: readonly ResolvedTask[],
  scratch: string,
  { admit, memoryKib, log }: { admit: AdmitGitUrl; memoryKib: number; log?: GitLog | undefined },
): Promise<Checkouts> {
  await mkdir(scratch, { recursive: true, mode: 0o700 })
  const parentFolder = await mkdtemp(join(scratch, 'repositories-'))
  const paths = groupPathsByCommit(tasks)
  const clones = new Map<string, Promise<string>>()
  return {
    checkout(task, signal) {
      const key = toCloneKey(task)
      return shareSuccessByKey(clones, key, () =>
        clone(task, paths.get(key) ?? [], { parentFolder, admit, memoryKib, log, signal }),
      )
    },
    [Symbol.asyncDispose]: () => rm(parentFolder, { recursive: true, force: true }),
  }
}

const toCloneKey = ({ url, commit }: GitTask): string => `${commit} ${url}`

function groupPathsByCommit(tasks: readonly ResolvedTask[]): Map<string, string[]> {
  const paths = new Map<string, string[]>()
  for (const { at } of tasks) {
    if (at.kind !== 'git') continue
    const pathsOfCommit = paths.get(toCloneKey(at)) ?? []
    pathsOfCommit.push(at.path)
    paths.set(toCloneKey(at), pathsOfCommit)
  }
  return paths
}

type SparseCloneOptions = {
  parentFolder: string
  admit: AdmitGitUrl
  memoryKib: number
  log: GitLog | undefined
  signal: AbortSignal
}

/** Clones one commit, without history and with only the files of the tasks. */
async function clone(
  task: GitTask,
  paths: string[],
  { parentFolder, admit, memoryKib, log, signal }: SparseCloneOptions,
): Promise<string> {
  const folder = await mkdtemp(join(parentFolder, 'clone-'))
  const { url, protocol, pin } = await admit(task.url)
  const { commit } = task
  const checkout: GitCheckout = { folder, memoryKib, protocol, pin, log }
  await mkdir(join(folder, 'files'))
  await runRegistryGit(checkout, ['init', '--quiet', '--template='], signal)
  await runRegistryGit(checkout, ['remote', 'add', '--', 'origin', url], signal)
  await runRegistryGit(
    checkout,
    ['fetch', '--quiet', '--depth=1', '--filter=blob:none', '--no-tags', 'origin', commit],
    signal,
  )
  await runRegistryGit(checkout, ['config', 'core.sparseCheckout', 'true'], signal)
  await mkdir(join(folder, 'git/info'), { recursive: true })
  await writeFile(join(folder, 'git/info/sparse-checkout'), paths.map(toSparsePattern).join(''))
  await runRegistryGit(checkout, ['checkout', '--quiet', '--detach', commit], signal)
  return join(folder, 'files')
}

/** Returns the sparse-checkout pattern of a folder, with special characters escaped. */
const toSparsePattern = (path: string): string =>
  path === '.' ? '/*\n' : `/${path.replaceAll(/[\\*?[\]!# ]/g, '\\$&')}/\n`

type GitCheckout = {
  folder: string
  /** The only protocol that git may use. */
  protocol: 'https' | 'http'
  /** The only server that git may connect to. Undefined for a server of the operator. */
  pin: PinnedServer | undefined
  memoryKib: number
  /** Receives the output of git, which must not be shown to the workspace. */
  log?: GitLog | undefined
}

export type GitLog = { warn(about: object, message: string): void }

/**
 * Runs a git command on the repository in `folder`. Throws TaskMissing for an unknown commit, ArchiveRefused for a
 * repository that is too large, and RegistryUnavailable otherwise.
 */
async function runRegistryGit(
  { folder, protocol, pin, memoryKib, log }: GitCheckout,
  args: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const repositoryArgs = [`--git-dir=${folder}/git`, `--work-tree=${folder}/files`]
  const location = {
    repositoryArgs,
    cwd: `${folder}/files`,
    home: folder,
    protocols: protocol,
    pin,
    memoryKib,
    isLazy: true,
  }
  await runGit(location, args, { signal }).catch((error: unknown) => {
    if (!(error instanceof GitFailed)) throw error
    log?.warn({ error }, 'failed to read a repository of a dataset')
    throw toRegistryError(error.stderr)
  })
}

const NO_SUCH_COMMIT = /not our ref|no such ref|couldn't find remote ref|unadvertised object|reference is not a tree/i

/** Converts git's output to an error. The message is generic: it must not reveal the response of an internal server. */
function toRegistryError(stderr: string): Error {
  if (NO_SUCH_COMMIT.test(stderr)) return new TaskMissing('The repository does not have the commit.')
  if (LIMIT_EXCEEDED.test(stderr)) return new ArchiveRefused('too_large', 'The repository is too large.')
  return new RegistryUnavailable('git could not read a repository. See the log of the service for the reason.')
}
