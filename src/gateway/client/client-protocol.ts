import type { ModelReply, ModelRequest, StopReason } from '../../harnesses/conversation.ts'
import { type Json, type JsonObject, parseJson } from '../../harnesses/json.ts'
import type { ModelAccess } from '../../harnesses/model-access.ts'
import { objectOf } from '../protocols/fields.ts'

/** JSON body of a request. Members that are undefined are not sent. */
export type ClientRequestBody = Record<string, unknown>

/** The client side of one protocol. Each file of this folder implements one. */
export type ClientProtocol = {
  buildPath(model: string, isStream: boolean): string
  buildHeaders(token: string): Record<string, string>
  buildBody(access: ModelAccess, request: ModelRequest): ClientRequestBody
  /** Parses an untrusted answer. Unknown content is ignored. */
  parseReply(answer: JsonObject): ModelReply
  /** Members of a body that ask for a stream. Empty if only the path does. */
  streamMembers: JsonObject
  /** Builds the answer from the untrusted events of a stream. Returns undefined if the stream has no end. */
  assemble(events: readonly JsonObject[]): JsonObject | undefined
}

/** Returns the system prompt. If the request has a schema, the prompt asks for it too: not every provider enforces it. */
export const buildSystemPrompt = ({ system, shape }: ModelRequest): string =>
  shape
    ? `${system}\n\nAnswer with one JSON value of this schema, and with nothing else:\n${JSON.stringify(shape.schema)}`
    : system

/**
 * Returns a string or number as text, and an empty text for other values. `String()` is unsafe: lists recurse, objects
 * may throw.
 */
export const toPlainText = (json: Json | undefined): string =>
  typeof json === 'string' || typeof json === 'number' ? String(json) : ''

/** Parses tool arguments. Text that is not a JSON object within bounds reads as an empty object. */
export const parseArguments = (text: Json | undefined): JsonObject => objectOf(parseJson(toPlainText(text)))

/**
 * Returns our name for the reason with which a provider ends an answer, or undefined for reasons without a special
 * meaning.
 */
export const findStopReason = (
  stops: Readonly<Record<string, StopReason>>,
  reason: Json | undefined,
): StopReason | undefined => (Object.hasOwn(stops, toPlainText(reason)) ? stops[toPlainText(reason)] : undefined)
