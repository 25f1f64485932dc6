import type { JsonObject } from '../harnesses/json.ts'
import type { Protocol } from '../harnesses/model-access.ts'
import { type AcceptedRequest, checkRequest, type RefusedRequest } from './check-request.ts'
import { type ConversationDigest, digestConversation } from './input-memory.ts'
import type { Terms } from './ledger.ts'
import { wireProtocols } from './protocols.ts'
import { parseRequestBody } from './request-body.ts'
import type { MeteredAnswer, WireOperation } from './wire-protocol.ts'

// Pure functions of plain data. They run in a thread if a body is large.

export type InspectInput = {
  bytes: Uint8Array
  terms: Terms
  protocol: Protocol
  operation: WireOperation
  /** Optional features of the protocol that the request's headers enable. */
  features: string
}

/** `rewritten` is null if the bytes are forwarded unchanged. */
export type RequestInspection =
  | (AcceptedRequest & { rewritten: Uint8Array | null; hasLongCache: boolean; digest: ConversationDigest | null })
  | RefusedRequest

/** Parses a request and checks it against the terms of its grant. */
export function inspectBody({ bytes, terms, protocol, operation, features }: InspectInput): RequestInspection {
  const request = parseRequestBody(bytes)
  if (request.kind === 'refused') return request
  const checked = checkRequest(terms, wireProtocols[protocol], operation, request.json)
  if (checked.kind === 'refused') return checked
  const { body, ...accepted } = checked
  const rewritten = body === request.json ? null : encode(body)
  const isDigested = (rewritten ?? bytes).length <= DIGESTED_BYTES_MAX
  const { conversation } = wireProtocols[protocol]
  return {
    ...accepted,
    rewritten,
    hasLongCache: asksForLongCache(rewritten ?? bytes),
    digest: isDigested ? digestConversation(body, conversation, `${protocol} ${features}`) : null,
  }
}

/** Larger requests are not digested, because that takes as long as parsing them. */
const DIGESTED_BYTES_MAX = 4 * 1024 * 1024

/**
 * Every body that asks for a cache lifetime of one hour contains one of these texts: `"1h"`, or an escape sequence of one
 * of its characters.
 */
const LONG_CACHE = ['"1h"', '\\u0031', '\\u0068']

function asksForLongCache(bytes: Uint8Array): boolean {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return LONG_CACHE.some((text) => buffer.includes(text))
}

export type LimitInput = { bytes: Uint8Array; protocol: Protocol; tokens: number; provider: string }

/** Returns an accepted request with an output limit. */
export function limitBody({ bytes, protocol, ...limit }: LimitInput): Uint8Array {
  const request = parseRequestBody(bytes)
  if (request.kind === 'refused') throw new Error('An accepted request cannot be parsed')
  return encode(wireProtocols[protocol].withOutputLimit(request.json, limit))
}

export type EditInput = { bytes: Uint8Array; remove: readonly string[]; add: JsonObject }
export type EditedBody = { bytes: Uint8Array; isStream: boolean }

/** Returns an accepted request with other top-level members, and whether it asked for a stream. */
export function editBody({ bytes, remove, add }: EditInput): EditedBody {
  const request = parseRequestBody(bytes)
  if (request.kind === 'refused') throw new Error('An accepted request cannot be parsed')
  const remaining = Object.entries(request.json).filter(([name]) => !remove.includes(name))
  return { bytes: encode({ ...Object.fromEntries(remaining), ...add }), isStream: request.json.stream === true }
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
