import { expect, test } from 'vitest'
import { reject } from '../src/taskgen/stage-result.ts'
import { assay } from '../test/support/assay-command.ts'
import { openGenerationLab, startGenerationApp } from '../test/support/generating.ts'
import { createScriptedStages } from '../test/support/taskgen/scripted-stages.ts'
import { buildBatchReport } from './batches-report.ts'

test('counts the outcomes of candidates per stage and gives advice', async () => {
  await using app = await startGenerationApp()
  const runs = [{ cpuSeconds: 30 }, { cpuSeconds: 12.4 }]
  const stages = createScriptedStages({
    execution: async () => reject('no_f2p', 'No test fails before the fix.', { runs }),
  })
  const lab = await openGenerationLab(app, { changes: { easy: 2, medium: 0, hard: 0 }, stages })
  const { runId } = await lab.made({ easy: 2 })
  const args = ['batches', 'report', runId, '--repo', `lab/${lab.place.name}`]
  const env = { ASSAY_URL: app.url, ASSAY_KEY: app.adminKey }
  const { out } = await assay(args, { env })
  const lines = out.split('\n').map((line) => line.replaceAll(/\s+/g, ' ').trim())
  expect(lines[0]).toBe('0 of 2 candidates are ready, 0 deferred; models cost $0.00')
  expect(lines).toContainEqual(expect.stringMatching(/^environment 2 2 0 /))
  expect(lines).toContainEqual(expect.stringMatching(/^execution 2 0 2 0 85 \$0\.00$/))
  expect(lines).toContainEqual(expect.stringMatching(/^no_f2p execution 2 Prefer pull requests that add tests/))
  expect(JSON.parse((await assay([...args, '--json'], { env })).out)).toMatchObject({ tasks: 2, ready: 0 })
})

test('a batch without tasks has an empty report', () => {
  expect(buildBatchReport([])).toMatchObject({ tasks: 0, ready: 0, rejections: [] })
})
