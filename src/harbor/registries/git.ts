import { GitFailed, runGit } from '../../platform/git/git.ts'
import { ArchiveRefused } from '../archive-refused.ts'
import { shown } from '../report.ts'
import { RegistryUnavailable, TaskMissing } from './registry.ts'

export type GitPlace = {
  folder: string
  /** The only protocol that git may speak. */
  protocol: 'https' | 'http'
  /** `host:port:address`: the address that was checked is the one that is used. */
  pin: string | undefined
  memoryKib: number
}

/** One command on the repository in `folder`. Throws RegistryUnavailable; TaskMissing when there is no such
 * commit, ArchiveRefused when there is too much of it. */
export async function git(
  { folder, protocol, pin, memoryKib }: GitPlace,
  args: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const where = [`--git-dir=${folder}/git`, `--work-tree=${folder}/files`]
  const place = { where, cwd: `${folder}/files`, home: folder, protocols: protocol, pin, memoryKib, isLazy: true }
  await runGit(place, args, { signal }).catch((error: unknown) => {
    throw error instanceof GitFailed ? explained(error.stderr) : error
  })
}

const NO_SUCH_COMMIT = /not our ref|no such ref|couldn't find remote ref|unadvertised object|reference is not a tree/i

const TOO_LARGE = /out of memory|cannot allocate|mmap failed|file too large|signal 25/i

function explained(stderr: string): Error {
  const last = shown(stderr.trim().split('\n').at(-1) ?? '')
  if (NO_SUCH_COMMIT.test(stderr)) return new TaskMissing(`Its repository does not have that commit (${last}).`)
  if (TOO_LARGE.test(stderr)) return new ArchiveRefused('too_large', 'Its repository is too large to be read.')
  return new RegistryUnavailable(`git could not read a repository: ${last || 'it was stopped'}.`)
}
