import type { Protocol } from '../harnesses/model-access.ts'
import { type Judged, judge } from './judge.ts'
import type { Refusal, Terms } from './ledger.ts'
import { wires } from './protocols.ts'
import { parseRequestBody } from './request-body.ts'
import type { JsonObject, Metered, Operation } from './wire.ts'

// Pure functions of plain data: they run in a thread where a body is large.

export type InspectInput = { bytes: Uint8Array; terms: Terms; protocol: Protocol; operation: Operation }

export type Inspection =
  | { kind: 'refused'; reason: Refusal; message: string }
  /** `rewritten` is null where the bytes are sent on as they came. */
  | (Omit<Extract<Judged, { kind: 'accepted' }>, 'body'> & { rewritten: Uint8Array | null })

/** Parses a request and judges it by the terms of its grant. */
export function inspectBody({ bytes, terms, protocol, operation }: InspectInput): Inspection {
  const parsed = parseRequestBody(bytes)
  if (parsed.kind === 'refused') return parsed
  const judged = judge(terms, wires[protocol], operation, parsed.json)
  if (judged.kind === 'refused') return judged
  const { body, ...accepted } = judged
  return { ...accepted, rewritten: body === parsed.json ? null : bytesOf(body) }
}

export type LimitInput = { bytes: Uint8Array; protocol: Protocol; tokens: number; provider: string }

/** Returns a request that was accepted, with a limit of its output. */
export function limitBody({ bytes, protocol, ...limit }: LimitInput): Uint8Array {
  const parsed = parseRequestBody(bytes)
  if (parsed.kind === 'refused') throw new Error('A request that was accepted cannot be read.')
  return bytesOf(wires[protocol].withOutputLimit(parsed.json, limit))
}

export type MeterInput = { bytes: Uint8Array; protocol: Protocol }

/** Reads the usage of a whole answer. */
export function meterBody({ bytes, protocol }: MeterInput): Metered {
  const meter = wires[protocol].newMeter()
  try {
    meter.body(JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()))
  } catch {
    // No JSON: nothing is known of it.
  }
  return meter.read()
}

const bytesOf = (body: JsonObject): Uint8Array => Buffer.from(JSON.stringify(body))
