import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { unset } from '../../test/support/harnesses/level-cases.ts'
import { aider } from './aider.ts'

testHarnessContract(aider, {
  levelCases: [unset('openai-chat', 'some-model')],
  reportsSteps: false,
  // Without tools it makes a single call.
  budgetMicros: 1,
  answer: 'I write the file.\n\nhello.txt\n```\nhello\n```\n',
})
