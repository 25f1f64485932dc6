import { leaveGroup } from './group.ts'
import type { Made } from './running.ts'

/** Lets go of what only a sandbox that runs has use for. */
export async function release({ servers, control, membership }: Made): Promise<void> {
  for (const server of servers) server.close()
  control?.close()
  // The group may be gone already.
  if (membership) await leaveGroup(membership.joint, membership.address).catch(() => {})
}
