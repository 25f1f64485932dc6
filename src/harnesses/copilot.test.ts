import { copilot } from './copilot.ts'
import { keepsTheContract } from './testing/contract.ts'
import { efforts, off, silence } from './testing/sayings.ts'

keepsTheContract(copilot, {
  sayings: [
    { protocol: 'anthropic-messages', model: 'claude-sonnet-5', level: 'low', wireLevel: { effort: 'low' } },
    ...efforts('anthropic-messages', 'claude-sonnet-5', ['medium', 'high', 'xhigh', 'max']),
    off('anthropic-messages', 'claude-sonnet-5'),
    ...efforts('openai-responses', 'gpt-5.5', ['none', 'low', 'medium', 'high', 'xhigh', 'max']),
    ...efforts('openai-chat', 'some-model', ['low', 'max']),
    silence('openai-chat', 'some-model'),
  ],
})
