import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { unset } from '../../test/support/harnesses/level-cases.ts'
import { fastAgent } from './fast-agent.ts'

testHarnessContract(fastAgent, {
  levelCases: [unset('openai-chat', 'some-model')],
  // Its trajectory has the names of tool calls only.
  reportsSteps: false,
  budgetMicros: 60_000,
})
