import { qwenCode } from './qwen-code.ts'
import { keepsTheContract } from './testing/contract.ts'
import { efforts, silence } from './testing/sayings.ts'

keepsTheContract(qwenCode, {
  sayings: [
    { protocol: 'openai-chat', model: 'some-model', level: 'low', wireLevel: { effort: 'low' } },
    ...efforts('openai-chat', 'some-model', ['medium', 'high', 'xhigh']),
    silence('openai-chat', 'some-model'),
    ...efforts('openai-responses', 'gpt-5.5', ['low', 'medium', 'high', 'xhigh']),
    ...efforts('anthropic-messages', 'claude-sonnet-5', ['low', 'medium', 'high', 'xhigh', 'max']),
  ],
})
