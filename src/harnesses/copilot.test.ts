import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { efforts, off, unset } from '../../test/support/harnesses/level-cases.ts'
import { copilot } from './copilot.ts'

testHarnessContract(copilot, {
  levelCases: [
    { protocol: 'anthropic-messages', model: 'claude-sonnet-5', level: 'low', wireLevel: { effort: 'low' } },
    ...efforts('anthropic-messages', 'claude-sonnet-5', ['medium', 'high', 'xhigh', 'max']),
    off('anthropic-messages', 'claude-sonnet-5'),
    ...efforts('openai-responses', 'gpt-5.5', ['none', 'low', 'medium', 'high', 'xhigh', 'max']),
    ...efforts('openai-chat', 'some-model', ['low', 'max']),
    unset('openai-chat', 'some-model'),
  ],
})
