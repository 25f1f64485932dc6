import { leaveNetwork } from './network.ts'
import type { SandboxResources } from './running.ts'

/** Releases resources that only a running sandbox needs. */
export async function release({ servers, control, membership }: SandboxResources): Promise<void> {
  for (const server of servers) server.close()
  control?.close()
  // The sandbox network may already be removed.
  if (membership) await leaveNetwork(membership.network, membership.address).catch(() => {})
}
