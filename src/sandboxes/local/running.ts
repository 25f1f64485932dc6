import type { Server } from 'node:net'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import type { SandboxSpec } from '../sandbox.ts'
import type { ControlShell } from './control.ts'
import type { SandboxFiles } from './files.ts'
import type { Launched } from './launch.ts'
import type { Host } from './machine.ts'
import { type LocalNetwork, leaveNetwork } from './network.ts'
import type { Output } from './process-io.ts'
import type { SandboxRecord } from './record.ts'

/** Resources of a sandbox that have been created so far and must be released. */
export type SandboxResources = {
  record: SandboxRecord
  files: SandboxFiles
  namespaceProcess: NamespaceProcess | undefined
  /** Servers on ports of the sandbox. */
  servers: Server[]
  control: ControlShell | undefined
  membership: Membership | undefined
}

/** Membership of a sandbox in a network. */
type Membership = { network: LocalNetwork; address: string }

export type LocalRunningSandbox = {
  host: Host
  spec: SandboxSpec
  resources: SandboxResources
  namespaceProcess: NamespaceProcess
  launched: Launched
  output: Output
}

/** Releases resources that only a running sandbox needs. */
export async function release({ servers, control, membership }: SandboxResources): Promise<void> {
  for (const server of servers) server.close()
  control?.close()
  // The sandbox network may already be removed.
  if (membership) await leaveNetwork(membership.network, membership.address).catch(() => {})
}
