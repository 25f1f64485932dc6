import { GITHUB } from '../repos/github-request.ts'
import type { RepositoryRow } from '../repos/repos.ts'

/** Maps repository owners to workspace logins. Undefined if the operator configured nothing. */
export type PublicOwners = ReadonlyMap<string, string> | undefined

/**
 * True if the workspace may publish under the repository's owner. An assigned owner belongs to its workspace on every
 * host. GitHub vouches for all other owners. For plain git and other code hosts the owner is unverified, so the operator
 * assigns it; a single workspace needs no assignment.
 */
export function mayPublish(
  { source_kind, host, owner }: Pick<RepositoryRow, 'source_kind' | 'host' | 'owner'>,
  login: string,
  { publicOwners, isOnlyWorkspace }: { publicOwners: PublicOwners; isOnlyWorkspace: boolean },
): boolean {
  const assigned = publicOwners?.get(owner.toLowerCase())
  if (assigned !== undefined) return assigned.toLowerCase() === login.toLowerCase()
  if (source_kind === 'github' && host === GITHUB) return true
  return publicOwners === undefined && isOnlyWorkspace
}
