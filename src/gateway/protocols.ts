import type { Protocol } from '../harnesses/model-access.ts'
import { anthropicMessages } from './protocols/anthropic-messages.ts'
import { gemini } from './protocols/gemini.ts'
import { openaiChat } from './protocols/openai-chat.ts'
import { openaiResponses } from './protocols/openai-responses.ts'
import type { Wire } from './wire.ts'

/** Every protocol that the gateway speaks. A new one is a file of its own and a line here. */
export const wires: Record<Protocol, Wire> = {
  'anthropic-messages': anthropicMessages,
  'openai-chat': openaiChat,
  'openai-responses': openaiResponses,
  gemini,
}
