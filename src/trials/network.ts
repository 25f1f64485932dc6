import type { Network } from '../harbor/task.ts'
import { buildProxyEnv, LOOPBACK, PROXY_PORT } from '../sandboxes/egress/build-egress.ts'
import { createEgress, type EgressOptions, type EgressSummary } from '../sandboxes/egress/egress.ts'
import type { Port } from '../sandboxes/sandbox.ts'

/** The network that a task declares for a phase, the access that its sandbox got, and its traffic. */
export type NetworkRecord = {
  asked: Network['mode']
  /** `none` also if the task declares nothing. Harbor allows everything then. */
  given: 'none' | 'public' | 'allowlist'
  hosts: string[]
  /** Null if the sandbox had no network access. */
  egress: EgressSummary | null
}

/** Network access of one phase, until it is closed. */
export type PhaseNetwork = {
  ports: Port[]
  /** Variables for the processes that use it. */
  env: Record<string, string>
  summary(): NetworkRecord
  /** Must be called when the sandbox has ended. */
  close(): void
}

type PhaseNetworkOptions = {
  /** Network for a task that declares none. */
  fallback?: Network | undefined
  /** Names that the sandbox reaches without the proxy: its sidecars. */
  direct?: string[] | undefined
  egress?: EgressOptions | undefined
}

/**
 * Opens the network access of one sandbox: none, or a loopback port to an egress proxy that allows what the task
 * declares.
 */
export function openNetwork(
  declared: Network,
  { fallback, direct = [], egress: options }: PhaseNetworkOptions = {},
): PhaseNetwork {
  const asked = declared.mode
  const network = asked === 'undeclared' ? (fallback ?? declared) : declared
  const { mode: given, hosts } = network
  if (given === 'no-network' || given === 'undeclared') {
    return { ports: [], env: {}, summary: () => toNoNetworkRecord(declared), close: () => {} }
  }
  const egress = createEgress(network, options)
  return {
    ports: [{ port: PROXY_PORT, onConnection: egress.onConnection }],
    env: buildProxyEnv(direct),
    summary: () => ({ asked, given, hosts, egress: egress.summary() }),
    close: egress.close,
  }
}

/** Adds the port of the model. Proxies, including one that the image sets, are bypassed for it. */
export const withModel = (network: PhaseNetwork, port: Port): PhaseNetwork => ({
  ...network,
  ports: [...network.ports, port],
  env: { NO_PROXY: LOOPBACK, no_proxy: LOOPBACK, ...network.env },
})

/** Returns the record of a phase without network access, for example because it did not run. */
export const toNoNetworkRecord = ({ mode }: Network): NetworkRecord => ({
  asked: mode,
  given: 'none',
  hosts: [],
  egress: null,
})
