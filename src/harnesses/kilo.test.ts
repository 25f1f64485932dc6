import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { unset } from '../../test/support/harnesses/level-cases.ts'
import { kilo } from './kilo.ts'

testHarnessContract(kilo, {
  levelCases: [unset('openai-chat', 'some-model')],
  // Tries to reach its maker at every start.
  refusedHosts: ['api.kilo.ai:443'],
  budgetMicros: 300_000,
})
