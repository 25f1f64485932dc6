import type { AuxiliaryModelRule } from '../harnesses/harness.ts'
import type { JsonObject } from '../harnesses/json.ts'
import type { Protocol, WireLevel } from '../harnesses/model-access.ts'
import { type NewCall, type Refusal, type Terms, toStorableName } from './ledger.ts'
import { isFilled } from './protocols/fields.ts'
import { wireProtocols } from './protocols.ts'
import { parseRequestBody } from './request-body.ts'
import type { MeteredAnswer, ParsedRequest, WireOperation, WireProtocol } from './wire-protocol.ts'

// Pure functions of plain data. They run in a thread if a body is large.

export type InspectInput = { bytes: Uint8Array; terms: Terms; protocol: Protocol; operation: WireOperation }

/** `rewritten` is null if the bytes are forwarded unchanged. */
export type RequestInspection =
  | (AcceptedRequest & { rewritten: Uint8Array | null; hasLongCache: boolean })
  | RefusedRequest

/** Parses a request and checks it against the terms of its grant. */
export function inspectBody({ bytes, terms, protocol, operation }: InspectInput): RequestInspection {
  const json = parseRequestBody(bytes)
  if (json.kind === 'refused') return json
  const checked = checkRequest(terms, wireProtocols[protocol], operation, json.json)
  if (checked.kind === 'refused') return checked
  const { body, ...accepted } = checked
  const rewritten = body === json.json ? null : encode(body)
  return { ...accepted, rewritten, hasLongCache: asksForLongCache(rewritten ?? bytes) }
}

/** Cache lifetime of one hour, also if its characters are escaped. */
const LONG_CACHE = ['"1h"', '\\u0031', '\\u0068']

function asksForLongCache(bytes: Uint8Array): boolean {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return LONG_CACHE.some((text) => buffer.includes(text))
}

export type LimitInput = { bytes: Uint8Array; protocol: Protocol; tokens: number; provider: string }

/** Returns an accepted request with an output limit. */
export function limitBody({ bytes, protocol, ...limit }: LimitInput): Uint8Array {
  const json = parseRequestBody(bytes)
  if (json.kind === 'refused') throw new Error('An accepted request cannot be parsed')
  return encode(wireProtocols[protocol].withOutputLimit(json.json, limit))
}

export type EditInput = { bytes: Uint8Array; remove: readonly string[]; add: JsonObject }
export type EditedBody = { bytes: Uint8Array; isStream: boolean }

/** Returns an accepted request with other top-level members, and whether it asked for a stream. */
export function editBody({ bytes, remove, add }: EditInput): EditedBody {
  const json = parseRequestBody(bytes)
  if (json.kind === 'refused') throw new Error('An accepted request cannot be parsed')
  const kept = Object.entries(json.json).filter(([name]) => !remove.includes(name))
  return { bytes: encode({ ...Object.fromEntries(kept), ...add }), isStream: json.json.stream === true }
}

export type MeterInput = { bytes: Uint8Array; protocol: Protocol }

/** Reads the usage of a whole answer. */
export function meterBody({ bytes, protocol }: MeterInput): MeteredAnswer {
  const meter = wireProtocols[protocol].createMeter()
  try {
    meter.takeBody(JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()))
  } catch {
    // An answer that is not JSON reports nothing.
  }
  return meter.read()
}

const encode = (body: JsonObject): Uint8Array => Buffer.from(JSON.stringify(body))

type RefusedRequest = { kind: 'refused'; reason: Refusal; message: string }

type AcceptedRequest = {
  kind: 'accepted'
  parsed: ParsedRequest
  /** Providers add a prompt of their own to requests with tools. */
  hasTools: boolean
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
    return refuse('malformed', `These must be integers in their usual range: ${listNames(invalidCounts)}.`)
  if (serverSideTools.length > 0)
    return refuse('hosted', `The provider would run this outside the sandbox. Remove: ${listNames(serverSideTools)}.`)
  if (surcharges.length > 0)
    return refuse('surcharge', `This is billed separately from the model. Remove: ${listNames(surcharges)}.`)
  const model = parsed.model ?? ''
  const isAuxiliary = model !== terms.model
  if (isAuxiliary && !isMapped(terms.helpers, model))
    return refuse('model', `Unknown model ${model.slice(0, TEXT_MAX)}. Use ${terms.model}.`)
  const isMismatch = !isAuxiliary && operation.kind === 'generate' && !isSameLevel(terms.wireLevel, level)
  return {
    kind: 'accepted',
    parsed,
    hasTools: isFilled(body.tools),
    body: wire.rewriteBody(body, { model: terms.model }),
    helper: isAuxiliary ? toStorableName(model) : null,
    levelAsked: isMismatch ? toStoredLevel(level) : null,
  }
}

function toStoredLevel(level: WireLevel | null): NewCall['levelAsked'] {
  if (level === null) return { unsaid: true }
  return 'effort' in level ? { effort: toStorableName(level.effort) } : level
}

const NAMES_MAX = 10
const TEXT_MAX = 200

const listNames = (names: readonly string[]): string => names.slice(0, NAMES_MAX).join(', ').slice(0, TEXT_MAX)

const refuse = (reason: Refusal, message: string): RefusedRequest => ({ kind: 'refused', reason, message })

/** Tells whether a rule maps this auxiliary model to the grant's model. The first rule that matches decides. */
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
