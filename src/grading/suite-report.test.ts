import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { tar } from '../../test/support/harbor/raw-tar.ts'
import type { StoppedSandbox } from '../sandboxes/sandbox.ts'
import { readGradeOutput } from './run-suite.ts'

/** What a dead sandbox has in the folder of its verifier. */
const left = (report: string | Buffer): StoppedSandbox => ({
  sandboxId: 'dead',
  collect: async () => ({
    tar: Readable.from([
      tar({ name: 'verifier/report.json', content: report }, { name: 'verifier/reward.txt', content: '1\n' }),
    ]),
    leftOut: [],
  }),
  async *changes() {},
})

const run = { statuses: { a: 'passed' }, messages: {}, exitCode: 0, seconds: 1 }

test('reads the report of the grader', async () => {
  const outcome = { kind: 'ran', run }
  expect(await readGradeOutput(left(JSON.stringify(outcome)))).toEqual({ outcome, reward: '1\n' })
})

test.each([
  ['nothing', ''],
  ['half of it', '{"kind": "ran", "run": {'],
  ['numbers that JSON has not', JSON.stringify({ kind: 'ran', run }).replace('"seconds":1', '"seconds":NaN')],
  ['bytes', Buffer.from([0xff, 0x00, 0xfe])],
  ['another kind', '{"kind": "danced"}'],
  ['another status', JSON.stringify({ kind: 'ran', run: { ...run, statuses: { a: 'won' } } })],
  ['a list', '[]'],
])('ignores a report of %s and still reads the reward', async (_, report) => {
  expect(await readGradeOutput(left(report))).toEqual({ outcome: undefined, reward: '1\n' })
})
