import type { Db } from '../platform/db/db.ts'
import type { Trust } from '../platform/outbound/outbound.ts'
import type { NetworkTrust } from '../platform/outbound/private-networks.ts'
import { listWorkspaces } from '../workspaces/workspaces.ts'

/** Private networks in which custom models of a workspace may run, by its login in lower case. Set by the operator. */
export type ModelNetworks = ReadonlyMap<string, NetworkTrust['networks']>

/** Finds the trust of a workspace by its id. Logins never change, so they are read once. */
export function createModelTrustLookup(db: Db, networks: ModelNetworks): (workspaceId: string) => Promise<Trust> {
  const known = new Map<string, Trust>()
  return async (workspaceId) => {
    if (networks.size === 0) return 'client'
    if (!known.has(workspaceId))
      for (const { id, login } of await listWorkspaces(db)) known.set(id, toModelTrust(networks, login))
    return known.get(workspaceId) ?? 'client'
  }
}

/** Returns how far the model addresses of a workspace are trusted: public ones only, or also those of its networks. */
function toModelTrust(networks: ModelNetworks, login: string): Trust {
  const allowed = networks.get(login.toLowerCase()) ?? []
  return allowed.length === 0 ? 'client' : { networks: allowed }
}
