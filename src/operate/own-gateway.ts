import type { Config } from '../config.ts'
import { findModelSecret } from '../credentials/providers.ts'
import type { Secret } from '../credentials/seal.ts'
import { type Gateway, startGateway } from '../gateway/gateway.ts'
import type { Ledger } from '../gateway/ledger.ts'
import { resolveUpstream } from '../model-gateway.ts'
import type { Log } from '../platform/log.ts'
import { createOpenStream } from '../platform/outbound/stream.ts'

/** Starts a gateway without a server, with `secret` or the keys of the environment. The caller stops it. */
export const startOwnGateway = (config: Config, log: Log, ledger: Ledger, secret?: Secret): Promise<Gateway> =>
  startGateway(
    {
      ledger,
      openStream: createOpenStream(),
      openSecret: async ({ terms }) => secret ?? findModelSecret(config.environment, terms.provider),
      // The user who runs this process may connect to any address of the machine anyway.
      findUpstream: (terms) => resolveUpstream(terms, config.upstreams, 'operator'),
      log,
      counters: { settled: () => {}, refused: () => {}, retried: () => {} },
    },
    { host: '127.0.0.1', port: 0 },
  )
