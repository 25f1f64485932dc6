import { findModelUrl, findUpstream } from './credentials/providers.ts'
import type { Secret } from './credentials/seal.ts'
import { type OpenedSecret, openSecret } from './credentials/secrets.ts'
import { createGatewayCounters, type GatewayDeps } from './gateway/call-context.ts'
import { type Gateway, type ListenAddress, startGateway } from './gateway/gateway.ts'
import type { Grant, Terms } from './gateway/ledger.ts'
import type { GatewayOptions } from './gateway/options.ts'
import { createOpenStream } from './platform/outbound/open-stream.ts'
import type { Trust } from './platform/outbound/outbound.ts'
import type { Services } from './services.ts'
import { createOperatorKeyTest } from './workspaces/authenticate.ts'

/** Starts the gateway of this process, the only part that opens the keys of model providers. */
export const startModelGateway = (
  services: Services & { holdsMasterKey?: () => boolean },
  address: ListenAddress,
  options: Partial<GatewayOptions> = {},
): Promise<Gateway> => startGateway(toGatewayDeps(services), address, options)

const toGatewayDeps = ({
  ledger,
  credentials,
  config,
  blobs,
  log,
  metrics,
  holdsMasterKey,
}: Parameters<typeof startModelGateway>[0]): GatewayDeps => ({
  ledger,
  blobs,
  openStream: createOpenStream(),
  openSecret: async (grant) =>
    selectSecret(grant, await openSecret(credentials, grant.workspaceId, grant.credentialId)),
  findUpstream: async (terms, _, workspaceId) =>
    resolveUpstream(terms, config.upstreams, await credentials.findModelTrust(credentials.db, workspaceId)),
  log,
  holdsMasterKey,
  counters: createGatewayCounters(metrics),
  metrics: { ...metrics, isOperatorKey: createOperatorKeyTest(config.operatorKey) },
})

/** Returns a secret only if it belongs to the provider of the grant. */
function selectSecret({ terms }: Grant, opened: OpenedSecret | undefined): Secret | undefined {
  return opened?.kind === 'model' && opened.provider === terms.provider ? opened.secret : undefined
}

/** Returns the operator's address of a provider, or its own. `trust` applies to addresses of custom models. */
export function resolveUpstream({ provider, baseUrl }: Terms, upstreams: Record<string, string>, trust: Trust) {
  const configured = findUpstream(upstreams, provider)
  if (configured === undefined && baseUrl !== null) return { url: baseUrl, trust }
  const url = configured ?? findModelUrl(provider)
  if (url === undefined) throw new Error(`Unknown model provider ${provider}.`)
  return { url, trust: 'operator' as const }
}
