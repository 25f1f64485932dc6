import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { unset } from '../../test/support/harnesses/level-cases.ts'
import { hermesAgent } from './hermes-agent.ts'

testHarnessContract(hermesAgent, {
  levelCases: [unset('openai-chat', 'some-model')],
  reportsSteps: false,
  probesServer: true,
})
