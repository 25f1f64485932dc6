import { GitFailed, runGit } from '../../platform/git/git.ts'
import type { PinnedServer } from '../../platform/outbound/pinned-proxy.ts'
import { ArchiveRefused } from '../archive-refused.ts'
import { RegistryUnavailable, TaskMissing } from './registry.ts'

export type GitPlace = {
  folder: string
  /** The only protocol that git may speak. */
  protocol: 'https' | 'http'
  /** The only server that git may connect to. Without one it is the operator's own. */
  pin: PinnedServer | undefined
  memoryKib: number
  /** Gets what git and the server said. The workspace does not. */
  log?: GitLog | undefined
}

export type GitLog = { warn(about: object, message: string): void }

/** One command on the repository in `folder`. Throws RegistryUnavailable; TaskMissing when there is no such
 * commit, ArchiveRefused when there is too much of it. */
export async function git(
  { folder, protocol, pin, memoryKib, log }: GitPlace,
  args: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const where = [`--git-dir=${folder}/git`, `--work-tree=${folder}/files`]
  const place = { where, cwd: `${folder}/files`, home: folder, protocols: protocol, pin, memoryKib, isLazy: true }
  await runGit(place, args, { signal }).catch((error: unknown) => {
    if (!(error instanceof GitFailed)) throw error
    log?.warn({ error }, 'a repository of a dataset could not be read')
    throw explained(error.stderr)
  })
}

const NO_SUCH_COMMIT = /not our ref|no such ref|couldn't find remote ref|unadvertised object|reference is not a tree/i

const TOO_LARGE = /out of memory|cannot allocate|mmap failed|file too large|signal 25/i

/** The message is the same for every server: a workspace must not learn what an internal one answers. */
function explained(stderr: string): Error {
  if (NO_SUCH_COMMIT.test(stderr)) return new TaskMissing('Its repository does not have that commit.')
  if (TOO_LARGE.test(stderr)) return new ArchiveRefused('too_large', 'Its repository is too large to be read.')
  return new RegistryUnavailable('git could not read a repository. The log of the service has the reason.')
}
