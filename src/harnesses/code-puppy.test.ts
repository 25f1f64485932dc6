import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { unset } from '../../test/support/harnesses/level-cases.ts'
import { codePuppy } from './code-puppy.ts'

testHarnessContract(codePuppy, {
  levelCases: [unset('openai-chat', 'some-model')],
  reportsSteps: false,
})
