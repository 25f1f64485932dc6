import { GITHUB } from '../repos/github-request.ts'
import type { RepositoryRow } from '../repos/repos.ts'

/** Which workspace publishes under which owner, by logins. Undefined: nothing was said. */
export type PublicOwners = ReadonlyMap<string, string> | undefined

/**
 * GitHub itself says whose a repository is. Of plain git, or with a code host of one's own, anybody could claim
 * anything, so the operator says it; where there is only one workspace, nobody else could be meant.
 */
export function mayPublish(
  { source_kind, host, owner }: Pick<RepositoryRow, 'source_kind' | 'host' | 'owner'>,
  login: string,
  { publicOwners, isOnlyWorkspace }: { publicOwners: PublicOwners; isOnlyWorkspace: boolean },
): boolean {
  if (source_kind === 'github' && host === GITHUB) return true
  if (!publicOwners) return isOnlyWorkspace
  return publicOwners.get(owner.toLowerCase())?.toLowerCase() === login.toLowerCase()
}
