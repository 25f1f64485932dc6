import type { AuxiliaryModelRule } from '../harnesses/harness.ts'
import type { JsonObject } from '../harnesses/json.ts'
import type { WireLevel } from '../harnesses/model-access.ts'
import { type NewCall, type Refusal, type Terms, toStorableName } from './ledger.ts'
import { isFilled } from './protocols/fields.ts'
import type { ParsedRequest, WireOperation, WireProtocol } from './wire-protocol.ts'

export type RefusedRequest = { kind: 'refused'; reason: Refusal; message: string }

export type AcceptedRequest = {
  kind: 'accepted'
  parsed: ParsedRequest
  /** Providers add a prompt of their own to requests with tools. */
  hasTools: boolean
  /** Name of the auxiliary model that the request asks for. Null if it asks for the grant's own. */
  helper: string | null
  levelAsked: NewCall['levelAsked']
}

type CheckedRequest = (AcceptedRequest & { body: JsonObject }) | RefusedRequest

/** Decides whether the terms of a grant allow a request, and returns the body to forward. */
export function checkRequest(
  terms: Terms,
  wire: WireProtocol,
  operation: WireOperation,
  body: JsonObject,
): CheckedRequest {
  const parsed = wire.parseRequest(operation, body)
  const { invalidCounts, serverSideTools, surcharges, level } = parsed
  if (invalidCounts.length > 0)
    return refuse(
      'malformed',
      `These are set twice, or are not integers in their usual range: ${joinNames(invalidCounts)}.`,
    )
  if (serverSideTools.length > 0)
    return refuse('hosted', `The provider would run this outside the sandbox. Remove: ${joinNames(serverSideTools)}.`)
  if (surcharges.length > 0)
    return refuse('surcharge', `This is billed separately from the model. Remove: ${joinNames(surcharges)}.`)
  const model = parsed.model ?? ''
  const isAuxiliary = model !== terms.model
  if (isAuxiliary && !isMapped(terms.helpers, model))
    return refuse('model', `Unknown model ${model.slice(0, TEXT_MAX)}. Use ${terms.model}.`)
  const isOtherLevel = !isAuxiliary && operation.kind === 'generate' && !isSameLevel(terms.wireLevel, level)
  return {
    kind: 'accepted',
    parsed,
    hasTools: isFilled(body.tools),
    body: wire.rewriteBody(body, { model: terms.model }),
    helper: isAuxiliary ? toStorableName(model) : null,
    levelAsked: isOtherLevel ? toStoredLevel(level) : null,
  }
}

function toStoredLevel(level: WireLevel | null): NewCall['levelAsked'] {
  if (level === null) return { unsaid: true }
  return 'effort' in level ? { effort: toStorableName(level.effort) } : level
}

const NAMES_MAX = 10
const TEXT_MAX = 200

/** Joins untrusted names for a message. */
const joinNames = (names: readonly string[]): string => names.slice(0, NAMES_MAX).join(', ').slice(0, TEXT_MAX)

const refuse = (reason: Refusal, message: string): RefusedRequest => ({ kind: 'refused', reason, message })

/** Returns true if a rule maps this auxiliary model to the grant's model (`pin`). The first rule that matches decides. */
const isMapped = (rules: readonly AuxiliaryModelRule[], model: string): boolean =>
  rules.find(({ name }) => matchesPattern(name, model))?.rule === 'pin'

/** Matches a pattern with `*` wildcards in linear time. */
function matchesPattern(pattern: string, text: string): boolean {
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

function isSameLevel(expected: WireLevel, requested: WireLevel | null): boolean {
  if (requested === null) return 'nothing' in expected
  if ('off' in expected) return 'off' in requested
  if ('effort' in expected)
    return 'effort' in requested && requested.effort.toLowerCase() === expected.effort.toLowerCase()
  return 'budgetTokens' in expected && 'budgetTokens' in requested && requested.budgetTokens === expected.budgetTokens
}
