import type { AllowedHost } from '../../platform/outbound/allowed-hosts.ts'
import { openBuildEgress } from '../egress/build-egress.ts'
import { enter, type NamespaceProcess } from '../kernel/namespace-process.ts'
import { openPorts } from '../kernel/ports.ts'

export type LocalBuildNetwork = { env: Record<string, string>; close(): void }

type BuildNetworkOptions = { rootless: boolean; buildHosts: readonly AllowedHost[]; onLog: (line: string) => void }

/** Opens the network of a build in an isolated network namespace: a loopback with one port, to the egress proxy. */
export async function openBuildNetwork(
  holder: NamespaceProcess,
  { rootless, buildHosts, onLog }: BuildNetworkOptions,
): Promise<LocalBuildNetwork> {
  const { code } = await holder.run('ip link set dev lo up')
  if (code !== 0) {
    onLog('This build has no network, because `ip` of iproute2 does not work here.')
    return { env: {}, close: () => {} }
  }
  const egress = openBuildEgress(buildHosts)
  const servers = await openPorts(enter(holder.pid, rootless, '--net'), [egress.port])
  return {
    env: egress.env,
    close() {
      for (const server of servers) server.close()
      egress.close(onLog)
    },
  }
}
