/** Item whose answer is shown assertion by assertion. */
export const COVERAGE_ITEM = 2

/** Questions of every review; yes is good. A single substantiated no on a blocker rejects the task. */
export const RUBRIC = [
  {
    item: 1,
    asks: 'Does the goal follow from the instruction and the base code?',
    reason: 'underspecified',
    isBlocker: false,
  },
  {
    item: COVERAGE_ITEM,
    asks: 'Does every assertion of every listed test follow from a sentence of the instruction, or from what the base code already does? Show it for each under "assertions".',
    reason: 'underspecified',
    isBlocker: true,
  },
  {
    item: 3,
    asks: 'Is everything central that the instruction demands tested?',
    reason: 'misaligned',
    isBlocker: false,
  },
  {
    item: 4,
    asks: 'Would the tests accept a correct solution that is materially different from the change? Sketch one under "alternative".',
    reason: 'overspecified_tests',
    isBlocker: true,
  },
  {
    item: 5,
    asks: 'Does the instruction keep the solution, and the way to it, to itself?',
    reason: 'solution_leak',
    isBlocker: false,
  },
  {
    item: 6,
    asks: 'Can it be done without knowledge from elsewhere, and without the network?',
    reason: 'underspecified',
    isBlocker: false,
  },
  { item: 7, asks: 'Is it about one thing?', reason: 'misaligned', isBlocker: false },
  { item: 8, asks: 'Is what the instruction says of the base code true?', reason: 'misaligned', isBlocker: false },
  {
    item: 9,
    asks: 'Is it free of secrets and of anything unsafe to work on?',
    reason: 'unsafe_content',
    isBlocker: false,
  },
] as const

export type RubricReason = (typeof RUBRIC)[number]['reason']
