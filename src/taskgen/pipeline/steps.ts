/**
 * Points between two consecutive writes of a discovery or a stage, in order. Crash tests kill the process at each of
 * them.
 */
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

/** Called when a step is reached. */
export type OnBatchStep = (step: (typeof BATCH_STEPS)[number]) => void
