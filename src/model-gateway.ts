import { findModelUrl, findUpstream } from './credentials/providers.ts'
import { type OpenedSecret, openSecret } from './credentials/secrets.ts'
import { gatewayCounters } from './gateway/counters.ts'
import { type Gateway, type GatewayTools, startGateway } from './gateway/gateway.ts'
import type { Grant, Terms } from './gateway/ledger.ts'
import type { GatewayOptions } from './gateway/options.ts'
import { createOpenStream } from './platform/outbound/stream.ts'
import type { Tools } from './tools.ts'
import { operatorKeyTest } from './workspaces/authenticate.ts'

/** Starts the gateway of this process. It alone opens the keys of model providers. */
export const startModelGateway = (
  tools: Tools,
  place: Place,
  changed: Partial<GatewayOptions> = {},
): Promise<Gateway> => startGateway(gatewayTools(tools), place, changed)

type Place = { host: string; port: number }

const gatewayTools = ({ ledger, credentials, config, blobs, log, metrics }: Tools): GatewayTools => ({
  ledger,
  blobs,
  openStream: createOpenStream(),
  openKey: async (grant) => keyFor(grant, await openSecret(credentials, grant.workspaceId, grant.credentialId)),
  findUpstream: (terms) => upstreamOf(terms, config.upstreams),
  log,
  counters: gatewayCounters(metrics),
  metrics: { ...metrics, isOperatorKey: operatorKeyTest(config.operatorKey) },
})

/** A key goes to the provider that it is for, and to no other. */
function keyFor({ terms }: Grant, opened: OpenedSecret | undefined): string | undefined {
  return opened?.kind === 'model' && opened.provider === terms.provider ? opened.secret.apiKey : undefined
}

/** Where the operator has it; else where its provider is. What a workspace says of its own model is behind the guard. */
export function upstreamOf({ provider, baseUrl }: Terms, upstreams: Record<string, string>) {
  const own = findUpstream(upstreams, provider)
  if (own === undefined && baseUrl !== null) return { url: baseUrl, trust: 'client' as const }
  const url = own ?? findModelUrl(provider)
  if (url === undefined) throw new Error(`Nobody knows where the provider ${provider} is.`)
  return { url, trust: 'operator' as const }
}
