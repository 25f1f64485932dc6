import type { Network } from '../harbor/task.ts'
import { createEgress, type EgressOptions } from '../sandboxes/egress/egress.ts'
import type { EgressSummary } from '../sandboxes/egress/ledger.ts'
import { LOOPBACK, PROXY_PORT, proxyEnv } from '../sandboxes/egress/proxy-env.ts'
import type { Port } from '../sandboxes/sandbox.ts'

/** What a phase's task asked for, what its sandbox was given, and what came of it. */
export type NetworkRecord = {
  asked: Network['mode']
  /** `none` also where nothing was asked for: Harbor would give everything there. */
  given: 'none' | 'public' | 'allowlist'
  hosts: string[]
  /** Null: there was no way out. */
  egress: EgressSummary | null
}

/** The way out of one phase, until it is closed. */
export type PhaseNetwork = {
  ports: Port[]
  /** For the processes that are to use it. */
  env: Record<string, string>
  summary(): NetworkRecord
  /** When the sandbox has ended. */
  close(): void
}

type Options = {
  /** Where the task declares nothing. */
  unsaid?: Network | undefined
  /** Names that the sandbox reaches by itself: its sidecars. */
  direct?: string[]
  egress?: EgressOptions | undefined
}

/** The way out of one sandbox: none, or one port of its own loopback to a proxy that lets through what the task declares. */
export function openNetwork(declared: Network, { unsaid, direct = [], egress: options }: Options = {}): PhaseNetwork {
  const asked = declared.mode
  const network = asked === 'unsaid' ? (unsaid ?? declared) : declared
  const { mode: given, hosts } = network
  if (given === 'no-network' || given === 'unsaid') {
    return { ports: [], env: {}, summary: () => withoutNetwork(declared), close: () => {} }
  }
  const egress = createEgress(network, options)
  return {
    ports: [{ port: PROXY_PORT, onConnection: egress.onConnection }],
    env: proxyEnv(direct),
    summary: () => ({ asked, given, hosts, egress: egress.summary() }),
    close: egress.close,
  }
}

/** With a port that leads to the model, whatever else may be reached. A proxy, also one of the image's, is no way to it. */
export const withModel = (network: PhaseNetwork, port: Port): PhaseNetwork => ({
  ...network,
  ports: [...network.ports, port],
  env: { NO_PROXY: LOOPBACK, no_proxy: LOOPBACK, ...network.env },
})

/** Of a phase that had none, whatever it declares. */
export const withoutNetwork = ({ mode }: Network): NetworkRecord => ({
  asked: mode,
  given: 'none',
  hosts: [],
  egress: null,
})
