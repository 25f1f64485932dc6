/** How large a comparison is: its trials fill a box of this size. */
export type Shape = { tasks: number; settings: number; attempts: number }

/** All positions count from 0, attempts from 1. */
export type Place = { task: number; setting: number; attempt: number }

/** A trial of an earlier comparison that may fill a place. */
export type Completed = {
  task: number
  setting: number
  comparison: number
  ordinal: number
  state: 'passed' | 'failed'
  costMicros: number | null
}

export type Planned = Place & { ordinal: number; reused: Completed | null }

/** First attempts of all tasks go first, so that an early look at a comparison already says something. */
export const ordinalOf = ({ tasks, settings }: Shape, { task, setting, attempt }: Place): number =>
  ((attempt - 1) * tasks + task) * settings + setting

/** The trials of the same task with the same setting, by their ordinals. */
export const cellOf = (shape: Shape, { task, setting }: Omit<Place, 'attempt'>): number[] =>
  Array.from({ length: shape.attempts }, (_, index) => ordinalOf(shape, { task, setting, attempt: index + 1 }))

export const trialCount = ({ tasks, settings, attempts }: Shape): number => tasks * settings * attempts

/** Tasks × settings × attempts. One trial that was completed before fills one place, the oldest first. */
export function plan(shape: Shape, completed: readonly Completed[]): Planned[] {
  const byCell = new Map<number, Completed[]>()
  for (const trial of completed) {
    const cell = ordinalOf(shape, { ...trial, attempt: 1 })
    byCell.set(cell, [...(byCell.get(cell) ?? []), trial])
  }
  return Array.from({ length: trialCount(shape) }, (_, ordinal) => {
    const cell = ordinal % (shape.tasks * shape.settings)
    const attempt = Math.floor(ordinal / (shape.tasks * shape.settings)) + 1
    const place = { task: Math.floor(cell / shape.settings), setting: cell % shape.settings, attempt }
    return { ...place, ordinal, reused: byCell.get(cell)?.[attempt - 1] ?? null }
  })
}
