import { type Finding, TaskInvalid } from './task.ts'

/** Collects what is found in a task, so that its author learns everything at once. */
export type Report = {
  refuse(path: string, code: string, message: string): void
  warn(path: string, code: string, message: string): void
  /** Adds what another report has. */
  include(other: Report): void
  refusals: Finding[]
  warnings: Finding[]
  /** Throws when something was refused. */
  check(): void
}

/** A hostile file must not make us write a book. */
const FINDINGS_MAX = 200

export function newReport(): Report {
  const refusals: Finding[] = []
  const warnings: Finding[] = []
  const into = (list: Finding[]) => (path: string, code: string, message: string) => {
    if (list.length < FINDINGS_MAX) list.push({ path: shown(path), code, message: shown(message) })
  }
  return {
    refuse: into(refusals),
    warn: into(warnings),
    include(other) {
      refusals.push(...other.refusals)
      warnings.push(...other.warnings)
    },
    refusals,
    warnings,
    check() {
      if (refusals.length > 0) throw new TaskInvalid(refusals)
    },
  }
}

const SHOWN_MAX = 300

/** Names come from strangers: none of them may run on, or move the cursor of a terminal. */
export const shown = (text: string): string =>
  (text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text).replaceAll(/\p{C}/gu, '?')
