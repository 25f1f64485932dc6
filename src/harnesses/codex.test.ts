import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { efforts } from '../../test/support/harnesses/level-cases.ts'
import { codex } from './codex.ts'

testHarnessContract(codex, {
  levelCases: [
    { protocol: 'openai-responses', model: 'gpt-5.5', level: 'low', wireLevel: { effort: 'low' } },
    ...efforts('openai-responses', 'gpt-5.5', ['none', 'minimal', 'medium', 'high', 'xhigh', 'max']),
    ...efforts('openai-responses', 'gpt-6-sol', ['high', 'max']),
  ],
})
