import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { unset } from '../../test/support/harnesses/level-cases.ts'
import { continueCli } from './continue.ts'

testHarnessContract(continueCli, {
  levelCases: [unset('openai-chat', 'some-model')],
  reportsSteps: false,
})
