import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { unset } from '../../test/support/harnesses/level-cases.ts'
import { cline } from './cline.ts'

testHarnessContract(cline, {
  levelCases: [unset('openai-chat', 'some-model')],
  // Asks for feature flags at every start.
  refusedHosts: ['data.cline.bot:443'],
})
