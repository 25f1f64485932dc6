import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { efforts, off } from '../../test/support/harnesses/level-cases.ts'
import { kimiCode } from './kimi-code.ts'

testHarnessContract(kimiCode, {
  levelCases: [
    { protocol: 'openai-chat', model: 'some-model', level: 'low', wireLevel: { effort: 'low' } },
    ...efforts('openai-chat', 'some-model', ['medium', 'high', 'xhigh', 'max']),
    ...efforts('anthropic-messages', 'claude-sonnet-5', ['low', 'medium', 'high', 'xhigh', 'max']),
    off('anthropic-messages', 'claude-sonnet-5'),
    ...efforts('openai-responses', 'gpt-5.5', ['low', 'medium', 'high', 'xhigh', 'max']),
    ...efforts('gemini', 'gemini-3.1-pro-preview', ['low', 'medium', 'high']),
  ],
})
