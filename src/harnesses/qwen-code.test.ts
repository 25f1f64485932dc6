import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { efforts, unset } from '../../test/support/harnesses/level-cases.ts'
import { qwenCode } from './qwen-code.ts'

testHarnessContract(qwenCode, {
  levelCases: [
    { protocol: 'openai-chat', model: 'some-model', level: 'low', wireLevel: { effort: 'low' } },
    ...efforts('openai-chat', 'some-model', ['medium', 'high', 'xhigh']),
    unset('openai-chat', 'some-model'),
    ...efforts('openai-responses', 'gpt-5.5', ['low', 'medium', 'high', 'xhigh']),
    ...efforts('anthropic-messages', 'claude-sonnet-5', ['low', 'medium', 'high', 'xhigh', 'max']),
  ],
})
