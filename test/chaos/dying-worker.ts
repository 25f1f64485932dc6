import { createScriptedEngine } from '../support/comparisons.ts'
import { startDeadlyWorker } from './deadly-worker.ts'

await startDeadlyWorker((step) => ({ engine: createScriptedEngine(), step }))
