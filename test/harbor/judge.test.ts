import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Harbor, startHarbor } from '../support/harbor-program.ts'

const SAMPLES = new URL('../../samples/tasks', import.meta.url).pathname
const names = readdirSync(SAMPLES)
/** Making Harbor's own system takes minutes, and so does each of its builds. */
const isLong = process.env.ASSAY_TEST_LONG !== undefined

let harbor: Harbor
beforeAll(async () => {
  if (isLong) harbor = await startHarbor()
}, 3_600_000)
afterAll(async () => harbor?.[Symbol.asyncDispose](), 60_000)

test.runIf(isLong).each(names)('Harbor itself: the oracle scores 1 on %s, and nop does not', async (name) => {
  const task = join(SAMPLES, name)
  const solved = await harbor.judge(task, 'oracle')
  const idle = await harbor.judge(task, 'nop')
  console.log(`${name}: oracle ${JSON.stringify(solved)}, nop ${JSON.stringify(idle)}`)
  expect(solved).toMatchObject({ reward: 1 })
  expect(idle).toMatchObject({ reward: 0 })
})
