import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { unset } from '../../test/support/harnesses/level-cases.ts'
import { gptme } from './gptme.ts'

testHarnessContract(gptme, {
  levelCases: [unset('openai-chat', 'some-model')],
})
