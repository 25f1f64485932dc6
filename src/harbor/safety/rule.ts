import type { View } from './view.ts'

/** Block refuses the task; warn is kept on its record. */
export type Severity = 'block' | 'warn'

/** The path is a file, or a key as the reader of tasks writes it: `environment/docker-compose.yaml.services.main.pid`. */
export type Found = { path: string; line?: number; detail: string }

export type Finding = { rule: string; severity: Severity } & Found

/** One reason to refuse a task, or to look at it twice. The check is pure, and linear in what it looks at. */
export type Rule = {
  id: string
  severity: Severity
  /** What it looks for, for the list in the documentation. */
  what: string
  check(view: View): Found[]
}
