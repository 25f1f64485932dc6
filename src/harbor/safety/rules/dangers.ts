import { DANGERS, type Danger, HINT } from '../danger-patterns.ts'
import { lineAt } from '../lines.ts'
import { oncePer } from '../once.ts'
import type { Found, Rule } from '../rule.ts'
import type { TextFile } from '../task-parts.ts'
import type { View } from '../view.ts'

// The same words are an attack where they are run and a subject where they are read: tasks about security are full of
// them. What builds or starts a task is refused for them; its tests, its solution and its files are noted.

const running =
  ({ signs, detail }: Danger) =>
  ({ commands }: View): Found[] =>
    commands
      .filter(({ text }) => signs.some((sign) => sign.test(text)))
      .map(({ path, line }) => (line === undefined ? { path, detail } : { path, line, detail }))

const PLACES_MAX = 5

/** Files that may have a sign in them. The ones that build and start the task are judged by what they run. */
const suspects = oncePer((view: View): TextFile[] => {
  const judged = new Set([...view.dockerfiles, ...view.composes].map(({ path }) => path))
  return view.texts.filter(({ path, text }) => !judged.has(path) && HINT.test(text))
})

const written =
  (danger: Danger) =>
  (view: View): Found[] =>
    suspects(view)
      .flatMap((file) => placeIn(file, danger))
      .slice(0, PLACES_MAX)

/** The first place is enough. */
function placeIn({ path, text }: TextFile, { signs }: Danger): Found[] {
  const offset = signs.map((sign) => text.search(sign)).find((place) => place >= 0)
  return offset === undefined ? [] : [{ path, line: lineAt(text, offset), detail: WORDS }]
}

const WORDS = 'Words of an attack. Is it part of the task?'

export const dangerRules: Rule[] = DANGERS.flatMap((danger): Rule[] => [
  {
    id: danger.id,
    severity: 'block',
    what: `${danger.what}, where the task is built or started`,
    check: running(danger),
  },
  {
    id: `${danger.id}_text`,
    severity: 'warn',
    what: `${danger.what}, in another file`,
    check: written(danger),
  },
])
