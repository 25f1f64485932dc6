import type { ModelReply, ModelRequest, StopReason } from '../../harnesses/conversation.ts'
import { parseJson } from '../../harnesses/json.ts'
import type { ModelAccess } from '../../harnesses/model-access.ts'
import { objectOf } from '../protocols/fields.ts'
import type { Json, JsonObject } from '../wire.ts'

/** How one protocol is spoken by us. Files of this folder each make one. */
export type Dialect = {
  path(model: string): string
  headers(token: string): Record<string, string>
  body(access: ModelAccess, asking: ModelRequest): JsonObject
  /** What an answer says. It is a stranger's: whatever is not understood is passed over. */
  reply(answer: JsonObject): ModelReply
}

/** What tells a model to answer in JSON, also one whose provider does not see to it. */
export const systemOf = ({ system, shape }: ModelRequest): string =>
  shape
    ? `${system}\n\nAnswer with one JSON value of this schema, and with nothing else:\n${JSON.stringify(shape.schema)}`
    : system

/** Returns a text or number of an answer as text. String() is not used on other values: lists recurse, objects throw. */
export const plainText = (json: Json | undefined): string =>
  typeof json === 'string' || typeof json === 'number' ? String(json) : ''

/** Arguments that were sent as text. Everything that is not a JSON object within bounds is an empty one. */
export const argumentsIn = (text: Json | undefined): JsonObject => objectOf(parseJson(plainText(text)))

export const stopFor = (
  stops: Readonly<Record<string, StopReason>>,
  reason: Json | undefined,
): StopReason | undefined => (Object.hasOwn(stops, plainText(reason)) ? stops[plainText(reason)] : undefined)
