import { askingStages } from '../support/taskgen/asking-stages.ts'
import { startDeadlyWorker } from './deadly-worker.ts'

await startDeadlyWorker((batchStep) => ({ stages: askingStages(), batchStep }))
