import { createGatewayCounters } from '../../../src/gateway/call-context.ts'
import { startGateway } from '../../../src/gateway/gateway.ts'
import { createStoredLedger } from '../../../src/gateway/stored-ledger.ts'
import { connect } from '../../../src/platform/db/db.ts'
import { createLog } from '../../../src/platform/log.ts'
import { createMetrics } from '../../../src/platform/metrics.ts'
import { createOpenStream } from '../../../src/platform/outbound/open-stream.ts'
import { KEY } from './gateway.ts'

// Runs a gateway in its own process, so that it can be killed. Arguments: database URL, provider URL.
const [databaseUrl = '', providerUrl = ''] = process.argv.slice(2)
const database = connect(databaseUrl, { max: 10, onError: () => {} })
const gateway = await startGateway(
  {
    ledger: createStoredLedger(database.db),
    openStream: createOpenStream(),
    openSecret: async () => ({ apiKey: KEY }),
    resolveUpstream: () => ({ url: providerUrl, trust: 'operator' }),
    log: createLog('warn'),
    counters: createGatewayCounters(createMetrics()),
  },
  { host: '127.0.0.1', port: 0 },
)
console.log(`assay ready ${gateway.url}`)
