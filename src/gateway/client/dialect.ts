import type { Asking, Reply } from '../../harnesses/conversation.ts'
import type { ModelAccess } from '../../harnesses/model-access.ts'
import type { JsonObject } from '../wire.ts'

/** How one protocol is spoken by us. Files of this folder each make one. */
export type Dialect = {
  path(model: string): string
  headers(token: string): Record<string, string>
  body(access: ModelAccess, asking: Asking): JsonObject
  /** What an answer says. It is a stranger's: whatever is not understood is passed over. */
  reply(answer: JsonObject): Reply
}

/** What tells a model to answer in JSON, also one whose provider does not see to it. */
export const systemOf = ({ system, shape }: Asking): string =>
  shape
    ? `${system}\n\nAnswer with one JSON value of this schema, and with nothing else:\n${JSON.stringify(shape.schema)}`
    : system
