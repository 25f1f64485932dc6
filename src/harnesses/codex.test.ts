import { codex } from './codex.ts'
import { keepsTheContract } from './testing/contract.ts'
import { efforts } from './testing/sayings.ts'

keepsTheContract(codex, {
  sayings: [
    { protocol: 'openai-responses', model: 'gpt-5.5', level: 'low', wireLevel: { effort: 'low' } },
    ...efforts('openai-responses', 'gpt-5.5', ['none', 'minimal', 'medium', 'high', 'xhigh', 'max']),
    ...efforts('openai-responses', 'gpt-6-sol', ['high', 'max']),
  ],
})
