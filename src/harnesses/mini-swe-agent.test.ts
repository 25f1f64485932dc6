import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { unset } from '../../test/support/harnesses/level-cases.ts'
import { miniSweAgent } from './mini-swe-agent.ts'

testHarnessContract(miniSweAgent, {
  levelCases: [unset('openai-chat', 'some-model')],
  reportsSteps: false,
  budgetMicros: 60_000,
})
