import { leaveNetwork } from './network.ts'
import type { SandboxResources } from './running.ts'

/** Lets go of what only a sandbox that runs has use for. */
export async function release({ servers, control, membership }: SandboxResources): Promise<void> {
  for (const server of servers) server.close()
  control?.close()
  // The group may be gone already.
  if (membership) await leaveNetwork(membership.network, membership.address).catch(() => {})
}
