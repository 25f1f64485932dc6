/** Between every two writes of a discovery and of a stage, in their order. Tests stop everything at each of them. */
export const BATCH_STEPS = [
  'discover.claimed',
  'discover.scanned',
  'discover.inserted',
  'discover.finished',
  'stage.claimed',
  'stage.read',
  'stage.granted',
  'stage.ran',
  'stage.closed',
  'stage.settled',
  'stage.finished',
] as const

/** Hears that a step is reached. */
export type OnBatchStep = (step: (typeof BATCH_STEPS)[number]) => void
