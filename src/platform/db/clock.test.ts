import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../../test/support/database.ts'
import { describeClockSkew, measureClockSkew, requireRightClock, watchClock } from './clock.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await testDatabase()
})
afterAll(() => database[Symbol.asyncDispose]())

const DAY_MS = 86_400_000
const at = (skewMs: number) => () => Date.now() + skewMs

test.each([
  [-DAY_MS, false],
  [-120_000, false],
  [-5_000, true],
  [0, true],
  [5_000, true],
  [120_000, false],
  [DAY_MS, false],
])('a clock that is %d ms ahead of the database may start jobs: %s', async (skewMs, isRight) => {
  const errors: string[] = []
  const log = { error: (_: object, text: string) => void errors.push(text), info: () => {} }
  const watch = await watchClock({ db: database.db, log: log as never, now: at(skewMs) })
  await watch.stop()
  expect(watch.isRight()).toBe(isRight)
  expect(errors).toHaveLength(isRight ? 0 : 1)
})

test('a clock that is set becomes right again', async () => {
  let skewMs = DAY_MS
  const now = () => Date.now() + skewMs
  const log = { error: () => {}, info: () => {} } as never
  const watch = await watchClock({ db: database.db, log, now, everyMs: 10 })
  expect(watch.isRight()).toBe(false)
  skewMs = 0
  await expect.poll(() => watch.isRight()).toBe(true)
  await watch.stop()
})

test('a worker does not start with a wrong clock', async () => {
  await requireRightClock(database.db)
  await expect(requireRightClock(database.db, at(DAY_MS))).rejects.toThrow(/ s ahead of the database's. Set it/)
})

test('measures and describes the difference', async () => {
  const skewMs = await measureClockSkew(database.db, at(-DAY_MS))
  expect(Math.abs(skewMs + DAY_MS)).toBeLessThan(60_000)
  expect(describeClockSkew(-DAY_MS)).toBe("The clock of this machine is 86400 s behind the database's.")
})
