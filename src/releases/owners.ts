import type { RepositoryRow } from '../repos/repos.ts'

/** Which workspace publishes under which owner, by logins. Undefined: nothing was said. */
export type PublicOwners = ReadonlyMap<string, string> | undefined

/**
 * Code hosts say whose a repository is. Of plain git anybody could claim anything, so the operator says it; where
 * there is only one workspace, nobody else could be meant.
 */
export function mayPublish(
  { source_kind, owner }: Pick<RepositoryRow, 'source_kind' | 'owner'>,
  login: string,
  { publicOwners, isOnlyWorkspace }: { publicOwners: PublicOwners; isOnlyWorkspace: boolean },
): boolean {
  if (source_kind !== 'git') return true
  if (!publicOwners) return isOnlyWorkspace
  return publicOwners.get(owner.toLowerCase())?.toLowerCase() === login.toLowerCase()
}
