import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../../../test/support/app.ts'
import {
  createScriptedEngine,
  openComparisonLab,
  openRepositoryComparisonLab,
} from '../../../../test/support/comparisons.ts'
import { listWorkspaceComparisons } from '../../schema.ts'
import { toSignature } from './failures.ts'

test.each([
  [null, null],
  ['The agent ended with code 137 after 12.5 s.', 'The agent ended with code … after … s.'],
  ['It had produced 12,345 tokens.', 'It had produced … tokens.'],
  ['Cannot read /workspace/src/a.ts: ENOENT', 'Cannot read /…: ENOENT'],
  ["No module named 'left_pad'", "No module named '…'"],
  ['Trial 0198c0de-0000-4000-8000-000000000001 lost\nsecond line', 'Trial … lost'],
])('%s has the signature %s', (message, signature) => expect(toSignature(message)).toBe(signature))

describe('through the API', () => {
  let app: TestApp
  beforeAll(async () => {
    app = await testApp()
  })
  afterAll(() => app[Symbol.asyncDispose]())

  test.each([
    ['benchmark', openComparisonLab],
    ['repository', openRepositoryComparisonLab],
  ])('groups failures of a comparison on a %s, and lists the comparison in the workspace', async (_, open) => {
    const engine = createScriptedEngine(({ harness, task }) =>
      harness === 'nop' ? { class: 'agent_exit', error: `Ended with code ${task.name.length}` } : {},
    )
    const lab = await open(app, engine)
    const { body } = await lab.create()
    await lab.work()
    const answer = await app.call(lab.endpoints.failures, lab.at(body.id))
    expect(answer.status).toBe(200)
    const failed = answer.body.groups.reduce((sum: number, { trials }: { trials: number }) => sum + trials, 0)
    expect(failed).toBe((await lab.read(body.id)).trials.failed)
    expect(answer.body.groups[0]).toMatchObject({ state: 'failed', settings: ['reference|nop|none'] })

    const listed = await app.call(listWorkspaceComparisons, { query: { limit: '1' } })
    expect(listed.body.evaluations.map(({ id }: { id: string }) => id)).toEqual([body.id])
    expect((await app.call(lab.endpoints.failures, lab.at(crypto.randomUUID()))).status).toBe(404)
  })
})
