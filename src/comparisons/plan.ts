/** Dimensions of a comparison: it has one trial per task, setting and attempt. */
export type PlanShape = { tasks: number; settings: number; attempts: number }

/** Coordinates of a trial. Tasks and settings count from 0, attempts from 1. */
type TrialPosition = { task: number; setting: number; attempt: number }

/** A scored trial of an earlier comparison that can be reused. */
export type CompletedTrial = {
  task: number
  setting: number
  comparison: number
  ordinal: number
  state: 'passed' | 'failed'
  costMicros: number | null
}

export type PlannedTrial = TrialPosition & { ordinal: number; reused: CompletedTrial | null }

/** Returns the position in the plan. First attempts of all tasks come first, so that partial results are informative. */
export const toOrdinal = ({ tasks, settings }: PlanShape, { task, setting, attempt }: TrialPosition): number =>
  ((attempt - 1) * tasks + task) * settings + setting

/** Returns the coordinates of a trial, the inverse of `toOrdinal`. */
export function toPosition({ tasks, settings }: PlanShape, ordinal: number): TrialPosition {
  const cell = ordinal % (tasks * settings)
  const attempt = Math.floor(ordinal / (tasks * settings)) + 1
  return { task: Math.floor(cell / settings), setting: cell % settings, attempt }
}

/** Lists the ordinals of all attempts at one task with one setting. */
export const listCellOrdinals = (shape: PlanShape, { task, setting }: Omit<TrialPosition, 'attempt'>): number[] =>
  Array.from({ length: shape.attempts }, (_, index) => toOrdinal(shape, { task, setting, attempt: index + 1 }))

export const countTrials = ({ tasks, settings, attempts }: PlanShape): number => tasks * settings * attempts

/** Plans tasks × settings × attempts. Each completed trial replaces one attempt of its cell, the oldest first. */
export function planTrials(shape: PlanShape, completed: readonly CompletedTrial[]): PlannedTrial[] {
  const byCell = new Map<number, CompletedTrial[]>()
  for (const trial of completed) {
    const cell = toOrdinal(shape, { ...trial, attempt: 1 })
    byCell.set(cell, [...(byCell.get(cell) ?? []), trial])
  }
  return Array.from({ length: countTrials(shape) }, (_, ordinal) => {
    const position = toPosition(shape, ordinal)
    const cell = toOrdinal(shape, { ...position, attempt: 1 })
    return { ...position, ordinal, reused: byCell.get(cell)?.[position.attempt - 1] ?? null }
  })
}

const TRIAL_ID = /^([0-9a-f]{8})-([0-9a-f]{4})-8000-8000-([0-9a-f]{12})$/

/** Encodes comparison and ordinal as a UUID (version 8), so that trial ids need neither a column nor an index. */
export function formatTrialId({ comparison, ordinal }: { comparison: number; ordinal: number }): string {
  const head = comparison.toString(16).padStart(12, '0')
  return `${head.slice(0, 8)}-${head.slice(8)}-8000-8000-${ordinal.toString(16).padStart(12, '0')}`
}

/** Decodes a trial id. Returns undefined for any other text. */
export function parseTrialId(id: string): { comparison: number; ordinal: number } | undefined {
  const [, head = '', middle = '', tail = ''] = TRIAL_ID.exec(id.toLowerCase()) ?? []
  if (tail === '') return undefined
  return { comparison: Number.parseInt(head + middle, 16), ordinal: Number.parseInt(tail, 16) }
}

/** Returns the ordinal of a trial, or undefined if the id does not belong to this comparison. */
export function findOrdinal(comparison: number, id: string): number | undefined {
  const key = parseTrialId(id)
  return key?.comparison === comparison ? key.ordinal : undefined
}
