import type { TaskView } from './view.ts'

/** `block` refuses the task; `warn` is recorded. */
export type RuleSeverity = 'block' | 'warn'

/** `path` is a file, or a key such as `environment/docker-compose.yaml.services.main.pid`. */
export type RuleMatch = { path: string; line?: number | undefined; detail: string }

export type SafetyFinding = { rule: string; severity: RuleSeverity } & RuleMatch

/** A rule of the safety check. `check` is pure and takes time linear in its input. */
export type SafetyRule = {
  id: string
  severity: RuleSeverity
  /** Listed in docs/safety.md. */
  description: string
  check(view: TaskView): RuleMatch[]
}
