import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { unset } from '../../test/support/harnesses/level-cases.ts'
import { grokCli } from './grok-cli.ts'

testHarnessContract(grokCli, {
  levelCases: [unset('openai-chat', 'some-model')],
})
