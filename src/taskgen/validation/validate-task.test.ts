import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type SuiteRunner, TESTS_IMAGE } from '../../../test/support/grading/suite-runner.ts'
import { CANARIES, type Canary } from '../../../test/support/taskgen/faulty-tasks.ts'
import { finishTask, type HandmadePullRequest, SHOP } from '../../../test/support/taskgen/finished-task.ts'
import { openPythonBench } from '../../../test/support/taskgen/python-suite-runner.ts'
import { type TrialCounts, type ValidateTaskInput, validateTask } from './validate-task.ts'

let fixture: SuiteRunner
beforeAll(async () => {
  fixture = await openPythonBench()
}, 1_800_000)
afterAll(async () => fixture[Symbol.asyncDispose](), 300_000)

const MINUTES = 60_000
const FEW: TrialCounts = { nop: 1, oracle: 2, oracleAll: 2 }

async function validateGenerated(
  made: Partial<HandmadePullRequest>,
  counts: TrialCounts = FEW,
  change: Canary['change'] = () => {},
) {
  const whole = { ...SHOP, ...made }
  const { folder, source } = await finishTask(fixture.folder, TESTS_IMAGE, whole)
  change((path, edit) => writeFileSync(join(folder, path), edit(readFileSync(join(folder, path), 'utf8'))))
  const tried: string[] = []
  const order: ValidateTaskInput = {
    folder,
    source,
    counts,
    lists: whole.lists,
    exposed: whole.exposed,
    outputFolder: join(fixture.folder, 'output'),
    onTrial: (what: string) => void tried.push(what),
  }
  return { result: await validateTask(fixture.provider, order, new AbortController().signal), tried }
}

test(
  'validates a good task and lists the cheats that its verifier cannot prevent',
  async () => {
    const { result, tried } = await validateGenerated({}, { nop: 2, oracle: 2, oracleAll: 3 })
    if (result.kind !== 'done') throw new Error(JSON.stringify(result))
    const proof = result.value
    expect(JSON.parse(JSON.stringify(proof))).toEqual(proof)
    expect(proof.digest).toMatch(/^sha256:[0-9a-f]{64}$/)
    expect(proof.nop).toEqual(Array(2).fill({ reward: 0, passed: 1, notPassed: 2, seconds: expect.any(Number) }))
    expect(proof.oracle).toEqual(Array(3).fill({ reward: 1, passed: 3, notPassed: 0, seconds: expect.any(Number) }))
    expect(proof.gold).toMatchObject({ reward: 1, passed: 3 })
    expect(proof.weakness).toEqual(expect.any(String))
    expect(proof).toMatchObject({ strength: 'weak', winners: ['equals-everything', 'forged-report'] })
    const lost = proof.cheats.filter(({ outcome }) => outcome === 'lost').map(({ id }) => id)
    expect(lost).toEqual(
      expect.arrayContaining([
        'network',
        'null-implementation-nothing',
        'delete-tests',
        'forge-reward',
        'preseed',
        'linked-folders',
        'background',
        'shadow-programs',
        'replaced-programs',
        'shadow-modules',
        'conftest',
        'own-tests',
        'exit-zero',
        'reward-daemon',
      ]),
    )
    expect(tried.slice(0, 5)).toEqual(['nop', 'oracle', 'gold', 'nop', 'oracle'])
    expect(tried.at(-1)).toBe('oracle')
  },
  20 * MINUTES,
)

test.each(CANARIES)(
  'a canary is rejected: $what',
  async ({ made, change, counts, reason, detail }) => {
    const { result } = await validateGenerated(made, counts, change)
    const told = { reason: expect.stringMatching(reason), detail: expect.stringMatching(detail) }
    expect(result).toMatchObject({ kind: 'rejected', ...told })
    // With what was seen until then: doing nothing is always tried first.
    const idle = expect.objectContaining({ passed: expect.any(Number), notPassed: expect.any(Number) })
    expect(result).toMatchObject({ evidence: { digest: expect.any(String), nop: expect.arrayContaining([idle]) } })
  },
  20 * MINUTES,
)
