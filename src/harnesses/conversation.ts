import type { Json, JsonObject } from './json.ts'

/** A tool that is offered to a model. `schema` is the JSON Schema of its arguments. */
export type ToolDefinition = { name: string; description: string; schema: JsonObject }

/** A tool call of a model. Untrusted: it can have any name and any arguments. */
export type ToolCall = { id: string; name: string; arguments: JsonObject }

export type Message =
  | { role: 'user'; text: string }
  /** The model's message as the provider sent it. Providers require reasoning to be returned unchanged. */
  | { role: 'model'; raw: Json }
  | { role: 'results'; results: { id: string; name: string; text: string }[] }

export type ModelRequest = {
  system: string
  messages: readonly Message[]
  tools?: readonly ToolDefinition[]
  /** Requests JSON of this schema. Every property is required and no others are allowed, because some providers insist on it. */
  shape?: { name: string; schema: JsonObject }
  signal: AbortSignal
}

/** The reason why a model stopped. `length`: the output limit cut it off. */
export type StopReason = 'done' | 'tools' | 'length' | 'refusal'

export type ModelReply = { text: string; thought: string; calls: ToolCall[]; raw: Json; stop: StopReason }

/** Sends a request to a model. Throws ModelCallFailed. */
export type AskModel = (request: ModelRequest) => Promise<ModelReply>

/** Thrown when a model call has no reply. `status` is set if it was refused; 402 means that the budget is spent. */
export class ModelCallFailed extends Error {
  override name = 'ModelCallFailed'
  readonly status: number | null

  constructor(status: number | null, message: string, options?: ErrorOptions) {
    super(message, options)
    this.status = status
  }
}
