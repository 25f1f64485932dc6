import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { tar } from '../../test/support/harbor/raw-tar.ts'
import {
  type Exit,
  type Image,
  type Sandbox,
  type SandboxProvider,
  type SandboxSpec,
  SandboxUnavailable,
  type StoppedSandbox,
} from '../sandboxes/sandbox.ts'
import { readGradeOutput, runSuite } from './run-suite.ts'

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

/** Runs a suite in a sandbox that ends like this and leaves no report. */
async function runEnding(exit: Pick<Exit, 'code' | 'limit'>) {
  const folder = mkdtempSync(join(tmpdir(), 'assay-ending-'))
  const start = async ({ outputFile }: SandboxSpec) => {
    writeFileSync(outputFile, '')
    const sandbox: Partial<Sandbox> = {
      exited: Promise.resolve({ ...exit, seconds: 1, outputBytes: 0 }),
      stopped: left(''),
      remove: async () => {},
    }
    return sandbox as Sandbox
  }
  const plan = { runner: 'pytest', prepare: [], targets: [], timeoutSec: 60 }
  const input = { image: {} as Image, submission: null, hidden: null, plan, seed: null, cpus: 1, memoryMb: 512, folder }
  try {
    const provider = { start } as Partial<SandboxProvider> as SandboxProvider
    return await runSuite(provider, input, new AbortController().signal)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const KILLED = 137

test('a suite that was killed from outside of its sandbox is no verdict', async () => {
  await expect(runEnding({ code: KILLED, limit: null })).rejects.toThrow(SandboxUnavailable)
})

test.each([
  [KILLED, 'memory'],
  [1, null],
] as const)('a suite that ends with %i and the limit %s is broken', async (code, limit) => {
  expect(await runEnding({ code, limit })).toMatchObject({ kind: 'broken', reason: 'no_report' })
})
