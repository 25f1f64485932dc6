import { connect } from '../../platform/db/db.ts'
import { createLog } from '../../platform/log.ts'
import { createMetrics } from '../../platform/metrics.ts'
import { createOpenStream } from '../../platform/outbound/stream.ts'
import { gatewayCounters } from '../counters.ts'
import { startGateway } from '../gateway.ts'
import { storedLedger } from '../stored-ledger.ts'
import { KEY } from './bench.ts'

// A gateway in a process of its own, so that it can be killed: DATABASE and PROVIDER are its arguments.
const [databaseUrl = '', providerUrl = ''] = process.argv.slice(2)
const database = connect(databaseUrl, { max: 10, onError: () => {} })
const gateway = await startGateway(
  {
    ledger: storedLedger(database.db),
    openStream: createOpenStream(),
    openKey: async () => KEY,
    findUpstream: () => ({ url: providerUrl, trust: 'operator' }),
    log: createLog('warn'),
    counters: gatewayCounters(createMetrics()),
  },
  { host: '127.0.0.1', port: 0 },
)
console.log(`assay ready ${gateway.url}`)
