import type { Json, JsonObject } from './json.ts'

/** Something that a model can ask to have done. The schema is of its arguments. */
export type Tool = { name: string; description: string; schema: JsonObject }

/** What a model asks to have done. It is a stranger's: any name, and any arguments. */
export type ToolCall = { id: string; name: string; arguments: JsonObject }

export type Message =
  | { role: 'user'; text: string }
  /** As the model said it, to the letter: models want their own thoughts back as they gave them. */
  | { role: 'model'; said: Json }
  | { role: 'results'; results: { id: string; name: string; text: string }[] }

export type Asking = {
  system: string
  messages: readonly Message[]
  tools?: readonly Tool[]
  /** The answer is to be JSON of this shape. Every property is required, and there are no others: some insist on it. */
  shape?: { name: string; schema: JsonObject }
  signal: AbortSignal
}

/** Why a model stopped. `length`: it had more to say. */
export type Stop = 'done' | 'tools' | 'length' | 'refusal'

export type Reply = { text: string; thought: string; calls: ToolCall[]; said: Json; stop: Stop }

/** Asks a model. Throws ModelSilent. */
export type Ask = (asking: Asking) => Promise<Reply>

/** There is no reply. With a status it was refused; 402 says that nothing is left to spend. */
export class ModelSilent extends Error {
  override name = 'ModelSilent'
  readonly status: number | null

  constructor(status: number | null, message: string, options?: ErrorOptions) {
    super(message, options)
    this.status = status
  }
}
