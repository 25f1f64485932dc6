import { z } from 'zod'
import { connect } from '../../db/db.ts'
import { startWorker } from '../worker.ts'

// A worker that takes one job, says so and never ends it: something for a test to kill.
const database = connect(process.argv[2] ?? '', { max: 2, onError: () => {} })
const silent = { info: () => {}, warn: () => {}, error: () => {} }
const endless = {
  kind: 'note',
  payload: z.object({ text: z.string() }),
  run: () => new Promise<void>(() => console.log('started')),
}
startWorker({ database, kinds: [endless], slots: 1, leaseMs: 400, log: silent })
