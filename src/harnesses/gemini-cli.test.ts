import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { budget, efforts, off } from '../../test/support/harnesses/level-cases.ts'
import { geminiCli } from './gemini-cli.ts'

testHarnessContract(geminiCli, {
  // Less than its calls cost until it detects that the model repeats itself.
  budgetMicros: 300_000,
  levelCases: [
    { protocol: 'gemini', model: 'gemini-3.1-pro-preview', level: 'low', wireLevel: { effort: 'low' } },
    ...efforts('gemini', 'gemini-3.1-pro-preview', ['medium', 'high']),
    ...efforts('gemini', 'gemini-3.8-flash', ['minimal']),
    budget('gemini', 'gemini-2.5-pro', 4096),
    off('gemini', 'gemini-2.5-flash'),
  ],
})
