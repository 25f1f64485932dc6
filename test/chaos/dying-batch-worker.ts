import { askingStages } from '../../src/batches/stages/testing/asking-stages.ts'
import { startDeadlyWorker } from './deadly-worker.ts'

await startDeadlyWorker((batchStep) => ({ stages: askingStages(), batchStep }))
