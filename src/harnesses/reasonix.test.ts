import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { unset } from '../../test/support/harnesses/level-cases.ts'
import { reasonix } from './reasonix.ts'

testHarnessContract(reasonix, {
  levelCases: [unset('openai-chat', 'some-model')],
})
