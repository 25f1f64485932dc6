import type { AuxiliaryModelRule } from '../harnesses/harness.ts'
import type { WireLevel } from '../harnesses/model-access.ts'
import type { NewCall, Refusal, Terms } from './ledger.ts'
import { nameOf } from './name-of.ts'
import type { Asked, JsonObject, Operation, Wire } from './wire.ts'

export type Judged =
  | { kind: 'accepted'; asked: Asked; body: JsonObject; helper: string | null; levelAsked: NewCall['levelAsked'] }
  | { kind: 'refused'; reason: Refusal; message: string }

/** Whether the terms of a grant allow a request, and what is sent on in its place. */
export function judge(terms: Terms, wire: Wire, operation: Operation, body: JsonObject): Judged {
  const asked = wire.read(operation, body)
  if (asked.invalidCounts.length > 0) {
    return refused('malformed', `These must be integers in their usual range: ${namesOf(asked.invalidCounts)}.`)
  }
  if (asked.hosted.length > 0) {
    return refused(
      'hosted',
      `The provider would do this by itself, outside of the sandbox; it is not allowed: ${namesOf(asked.hosted)}.`,
    )
  }
  if (asked.surcharges.length > 0) {
    return refused('surcharge', `It has a price of its own, and is not allowed: ${namesOf(asked.surcharges)}.`)
  }
  const model = asked.model ?? ''
  const isHelper = model !== terms.model
  if (isHelper && !isPinned(terms.helpers, model)) {
    return refused('model', `There is no model ${model.slice(0, TEXT_MAX)} here. Use ${terms.model}.`)
  }
  const isMismatch = !isHelper && operation.kind === 'generate' && !isLevel(terms.wireLevel, asked.level)
  return {
    kind: 'accepted',
    asked,
    body: wire.rewritten(body, { model: terms.model }),
    helper: isHelper ? nameOf(model) : null,
    levelAsked: isMismatch ? shownLevel(asked.level) : null,
  }
}

function shownLevel(level: WireLevel | null): NewCall['levelAsked'] {
  if (level === null) return { unsaid: true }
  return 'effort' in level ? { effort: nameOf(level.effort) } : level
}

const NAMES_MAX = 10
const TEXT_MAX = 200

const namesOf = (names: readonly string[]): string => names.slice(0, NAMES_MAX).join(', ').slice(0, TEXT_MAX)

const refused = (reason: Refusal, message: string): Judged => ({ kind: 'refused', reason, message })

const isPinned = (helpers: readonly AuxiliaryModelRule[], model: string): boolean =>
  helpers.find(({ name }) => fits(name, model))?.rule === 'pin'

/** Text by text, so that no pattern is slow. */
function fits(pattern: string, text: string): boolean {
  const [first = '', ...others] = pattern.split('*')
  const last = others.pop()
  if (last === undefined) return pattern === text
  if (!text.startsWith(first) || !text.endsWith(last)) return false
  let at = first.length
  for (const part of others) {
    const found = text.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return at <= text.length - last.length
}

function isLevel(expected: WireLevel, asked: WireLevel | null): boolean {
  if (asked === null) return 'nothing' in expected
  if ('off' in expected) return 'off' in asked
  if ('effort' in expected) return 'effort' in asked && asked.effort.toLowerCase() === expected.effort.toLowerCase()
  return 'budgetTokens' in expected && 'budgetTokens' in asked && asked.budgetTokens === expected.budgetTokens
}
