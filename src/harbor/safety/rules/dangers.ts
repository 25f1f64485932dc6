import { DANGERS, type Danger, HINT } from '../danger-patterns.ts'
import type { RuleMatch, SafetyRule } from '../rule.ts'
import { lineAt, type TextFile } from '../task-parts.ts'
import { memoize, type TaskView } from '../view.ts'

// Commands that build or start a task are refused for signs of an attack. In tests, solutions and other files the same
// signs only cause a warning, because they are common in tasks about security.

const matchCommands =
  ({ signs, detail }: Danger) =>
  ({ commands }: TaskView): RuleMatch[] =>
    commands
      .filter(({ text }) => signs.some((sign) => sign.test(text)))
      .map(({ path, line }) => ({ path, line, detail }))

const PLACES_MAX = 5

/** Lists files that may contain a sign, except those whose commands are checked. */
const listSuspects = memoize((view: TaskView): TextFile[] => {
  const checked = new Set([...view.dockerfiles, ...view.composes].map(({ path }) => path))
  return view.texts.filter(({ path, text }) => !checked.has(path) && HINT.test(text))
})

const matchTexts =
  (danger: Danger) =>
  (view: TaskView): RuleMatch[] =>
    listSuspects(view)
      .flatMap((file) => findFirst(file, danger))
      .slice(0, PLACES_MAX)

/** Returns the first match. */
function findFirst({ path, text }: TextFile, { signs }: Danger): RuleMatch[] {
  const offset = signs.map((sign) => text.search(sign)).find((place) => place >= 0)
  return offset === undefined ? [] : [{ path, line: lineAt(text, offset), detail: ATTACK_TEXT }]
}

const ATTACK_TEXT = 'The text looks like an attack. Check that it is part of the task.'

export const dangerRules: SafetyRule[] = DANGERS.flatMap((danger): SafetyRule[] => [
  {
    id: danger.id,
    severity: 'block',
    description: `${danger.description}, where the task is built or started`,
    check: matchCommands(danger),
  },
  {
    id: `${danger.id}_text`,
    severity: 'warn',
    description: `${danger.description}, in another file`,
    check: matchTexts(danger),
  },
])
