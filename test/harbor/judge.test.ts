import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { assay } from '../support/assay-command.ts'
import { type Harbor, startHarbor } from '../support/harbor-program.ts'

const SAMPLES = new URL('../../samples/tasks', import.meta.url).pathname
const names = readdirSync(SAMPLES)
/** Long run only: installing Harbor takes minutes, and so does each of its builds. */
const isLong = process.env.ASSAY_TEST_LONG !== undefined

let harbor: Harbor
beforeAll(async () => {
  if (isLong) harbor = await startHarbor()
}, 3_600_000)
afterAll(async () => harbor?.[Symbol.asyncDispose](), 600_000)

test.runIf(isLong).each(names)('in Harbor the reference solution passes %s and the no-op does not', async (name) => {
  const task = join(SAMPLES, name)
  const solved = await harbor.runHarbor(task, 'oracle')
  const idle = await harbor.runHarbor(task, 'nop')
  console.log(`${name}: oracle ${JSON.stringify(solved)}, nop ${JSON.stringify(idle)}`)
  expect(solved).toMatchObject({ reward: 1 })
  expect(idle).toMatchObject({ reward: 0 })
})

test.runIf(isLong)('our import of its job folders gives the same rewards', async () => {
  const jobs = readdirSync(harbor.jobsFolder)
  expect(jobs.length).toBeGreaterThan(0)
  for (const name of jobs) {
    const agent = name.includes('-oracle-') ? 'oracle' : 'nop'
    const { code, out } = await assay(['import', 'harbor-job', join(harbor.jobsFolder, name), '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({
      settings: [{ settingId: `reference|${agent}|none`, tasks: 1, passed: agent === 'oracle' ? 1 : 0 }],
      trials: [{ state: agent === 'oracle' ? 'passed' : 'failed', harness: agent }],
    })
  }
})
