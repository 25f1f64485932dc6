import type { ModelReply, ModelRequest, StopReason } from '../../harnesses/conversation.ts'
import { type Json, type JsonObject, parseJson } from '../../harnesses/json.ts'
import type { ModelAccess } from '../../harnesses/model-access.ts'
import { objectOf } from '../protocols/fields.ts'

/** JSON body of a request. Members that are undefined are not sent. */
export type ClientRequestBody = Record<string, unknown>

/** The client side of one protocol. Each file of this folder implements one. */
export type ClientProtocol = {
  path(model: string, isStream: boolean): string
  headers(token: string): Record<string, string>
  body(access: ModelAccess, request: ModelRequest): ClientRequestBody
  /** Reads an untrusted answer. Unknown content is ignored. */
  reply(answer: JsonObject): ModelReply
  /** Members of a body that ask for a stream. Empty if only the path does. */
  streamMembers: JsonObject
  /** Builds the answer from the untrusted events of a stream. Returns undefined if the stream has no end. */
  assemble(events: readonly JsonObject[]): JsonObject | undefined
}

/** Returns the system prompt. It asks for JSON of the schema, because not every provider enforces it. */
export const systemOf = ({ system, shape }: ModelRequest): string =>
  shape
    ? `${system}\n\nAnswer with one JSON value of this schema, and with nothing else:\n${JSON.stringify(shape.schema)}`
    : system

/**
 * Returns a string or number as text, and an empty text for other values. `String()` is unsafe: lists recurse, objects
 * may throw.
 */
export const plainText = (json: Json | undefined): string =>
  typeof json === 'string' || typeof json === 'number' ? String(json) : ''

/** Parses tool arguments. Text that is not a JSON object within bounds reads as an empty object. */
export const parseArguments = (text: Json | undefined): JsonObject => objectOf(parseJson(plainText(text)))

export const stopFor = (
  stops: Readonly<Record<string, StopReason>>,
  reason: Json | undefined,
): StopReason | undefined => (Object.hasOwn(stops, plainText(reason)) ? stops[plainText(reason)] : undefined)
