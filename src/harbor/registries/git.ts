import { GitFailed, runGit } from '../../platform/git/git.ts'
import type { PinnedServer } from '../../platform/outbound/pinned-proxy.ts'
import { ArchiveRefused } from '../archive-refused.ts'
import { RegistryUnavailable, TaskMissing } from './registry.ts'

export type GitCheckout = {
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
export async function runRegistryGit(
  { folder, protocol, pin, memoryKib, log }: GitCheckout,
  args: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const where = [`--git-dir=${folder}/git`, `--work-tree=${folder}/files`]
  const place = { where, cwd: `${folder}/files`, home: folder, protocols: protocol, pin, memoryKib, isLazy: true }
  await runGit(place, args, { signal }).catch((error: unknown) => {
    if (!(error instanceof GitFailed)) throw error
    log?.warn({ error }, 'failed to read a repository of a dataset')
    throw toRegistryError(error.stderr)
  })
}

const NO_SUCH_COMMIT = /not our ref|no such ref|couldn't find remote ref|unadvertised object|reference is not a tree/i

const TOO_LARGE = /out of memory|cannot allocate|mmap failed|file too large|signal 25/i

/** Converts git's output to an error. The message is generic: it must not reveal the response of an internal server. */
function toRegistryError(stderr: string): Error {
  if (NO_SUCH_COMMIT.test(stderr)) return new TaskMissing('The repository does not have the commit.')
  if (TOO_LARGE.test(stderr)) return new ArchiveRefused('too_large', 'The repository is too large.')
  return new RegistryUnavailable('git could not read a repository. See the log of the service for the reason.')
}
