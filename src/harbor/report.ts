import { type TaskFinding, TaskInvalid } from './task.ts'

/** Collects the findings about a task, so that its author sees all of them at once. */
export type Report = {
  refuse(path: string, code: string, message: string): void
  warn(path: string, code: string, message: string): void
  /** Adds the findings of another report. */
  include(other: Report): void
  refusals: TaskFinding[]
  warnings: TaskFinding[]
  /** Throws TaskInvalid if there are refusals. */
  throwIfRefused(): void
}

/** Maximum number of refusals, and of warnings. It bounds the report of a hostile file. */
const FINDINGS_MAX = 200

export function createReport(): Report {
  const refusals: TaskFinding[] = []
  const warnings: TaskFinding[] = []
  const addTo = (list: TaskFinding[]) => (path: string, code: string, message: string) => {
    if (list.length < FINDINGS_MAX) list.push({ path: sanitizeText(path), code, message: sanitizeText(message) })
  }
  return {
    refuse: addTo(refusals),
    warn: addTo(warnings),
    include(other) {
      refusals.push(...other.refusals)
      warnings.push(...other.warnings)
    },
    refusals,
    warnings,
    throwIfRefused() {
      if (refusals.length > 0) throw new TaskInvalid(refusals)
    },
  }
}

const TEXT_LENGTH_MAX = 300

/** Truncates untrusted text and replaces control characters, which could control a terminal. */
export const sanitizeText = (text: string): string =>
  (text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX)}…` : text).replaceAll(/\p{C}/gu, '?')
