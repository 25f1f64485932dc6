import { connect } from '../../../src/platform/db/db.ts'
import { startWorker } from '../../../src/platform/jobs/worker.ts'
import { createNoteHandler, silentLog } from './fixtures.ts'

// A worker process that starts one job, prints `started` and never ends it, for tests that kill it.
const database = connect(process.argv[2] ?? '', { max: 2, onError: () => {} })
const endless = createNoteHandler(() => new Promise<void>(() => console.log('started')))
startWorker({ database, handlers: [endless], slots: 1, leaseMs: 400, log: silentLog })
