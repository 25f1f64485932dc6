import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { unset } from '../../test/support/harnesses/level-cases.ts'
import { mistralVibe } from './mistral-vibe.ts'

testHarnessContract(mistralVibe, {
  levelCases: [unset('openai-chat', 'some-model')],
})
