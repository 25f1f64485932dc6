import type { Protocol } from '../harnesses/model-access.ts'
import { anthropicMessages } from './protocols/anthropic-messages.ts'
import { gemini } from './protocols/gemini.ts'
import { openaiChat } from './protocols/openai-chat.ts'
import { openaiResponses } from './protocols/openai-responses.ts'
import type { WireProtocol } from './wire-protocol.ts'

/** All protocols that the gateway supports. A new one is a file and a line here. */
export const wireProtocols: Record<Protocol, WireProtocol> = {
  'anthropic-messages': anthropicMessages,
  'openai-chat': openaiChat,
  'openai-responses': openaiResponses,
  gemini,
}
