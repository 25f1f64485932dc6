import type { Harness } from './harness.ts'

/** Does nothing. A task on which it scores 1 measures nothing. */
export const nop: Harness = { id: 'nop', needsModel: false, isOfTheTask: true, plan: () => undefined }
