import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { createScriptedValidator, VALID } from '../../test/support/batches.ts'
import { drain } from '../../test/support/jobs/drain.ts'
import { sandboxJobs } from '../app.ts'
import type { ValidationOutcome, Validator } from '../batches/validate.ts'
import { addBenchmark, listBenchmarks, readBenchmark, removeBenchmark } from './schema.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp({ ASSAY_REGISTRIES: 'samples' })
})
afterAll(async () => app[Symbol.asyncDispose]())

const QUICK = { params: { datasetOrg: 'assay', dataset: 'quick' } }
const add = (calibrate: boolean) => app.call(addBenchmark, { body: { reference: 'assay/quick', calibrate } })
const read = async () => (await app.call(readBenchmark, QUICK)).body
const work = (validate: Validator) => drain(app.tools.database, sandboxJobs({ ...app.tools, validate }, 'local'))

test('tasks are calibrated on request, and the results are stored with the benchmark', async () => {
  expect((await add(false)).body.calibration).toBeUndefined()
  expect(await add(true)).toMatchObject({
    status: 200,
    body: { calibration: { sandbox: 'local', done: 0, fit: 0, weak: 0 } },
  })
  const { taskList } = await read()
  const [weak, broken] = taskList.map((task: { digest: string }) => task.digest)
  const judged: string[] = []
  const validate = createScriptedValidator(({ digest }): ValidationOutcome => {
    judged.push(digest)
    if (VALID.kind !== 'valid') return VALID
    const { calibration } = VALID
    if (digest === weak)
      return { kind: 'valid', calibration: { ...calibration, strength: 'weak', winners: ['exit-zero'] } }
    if (digest !== broken) return VALID
    const rejection = { reason: 'oracle_fails' as const, detail: 'It does not pass.' }
    return { kind: 'rejected', rejection, calibration: { ...calibration, verifyMode: null, strength: null } }
  })
  await work(validate)

  const benchmark = await read()
  expect(benchmark.calibration).toEqual({ sandbox: 'local', done: 5, fit: 4, weak: 1 })
  expect(benchmark.taskList.slice(0, 3).map((task: { calibration: unknown }) => task.calibration)).toEqual([
    { verifyMode: 'workspace', strength: 'weak', winners: ['exit-zero'], error: null },
    { verifyMode: null, strength: null, winners: [], error: 'It does not pass.' },
    { verifyMode: 'workspace', strength: 'standard', winners: [], error: null },
  ])
  expect((await app.call(listBenchmarks)).body.benchmarks[0].calibration).toEqual(benchmark.calibration)

  await add(true)
  await work(validate)
  expect(judged).toHaveLength(5)
})

test('a task that cannot be calibrated records the reason, and a removed benchmark is not calibrated', async () => {
  await app.call(removeBenchmark, QUICK)
  await add(true)
  await app.call(removeBenchmark, QUICK)
  await work(
    createScriptedValidator(() => {
      throw new Error('Nothing of it is there any more.')
    }),
  )
  await add(true)
  await app.database.pool.query('update jobs set failures = 100')
  await work(
    createScriptedValidator(() => {
      throw new Error('The sandbox broke.')
    }),
  )
  const { calibration, taskList } = await read()
  expect(calibration).toMatchObject({ done: 5, fit: 0 })
  expect(taskList[0].calibration.error).toContain('The sandbox broke.')
})
