import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, expect, test } from 'vitest'
import { assay, scratchFolder } from '../test/support/assay-command.ts'

const scratch = scratchFolder()
afterAll(scratch.remove)
const inScratch = (...parts: string[]): string => join(scratch.path, ...parts)

/** Writes a job folder with the fields of Harbor 0.25 that matter. */
function writeJob(name: string, trials: Record<string, object>): string {
  const folder = inScratch(name)
  mkdirSync(folder)
  writeFileSync(join(folder, 'result.json'), JSON.stringify({ id: 'job-1', n_total_trials: 1, stats: {} }))
  for (const [trial, result] of Object.entries(trials)) {
    mkdirSync(join(folder, trial))
    writeFileSync(join(folder, trial, 'config.json'), '{}')
    if (Object.keys(result).length > 0)
      writeFileSync(join(folder, trial, 'result.json'), JSON.stringify({ ...base(trial), ...result }))
  }
  return folder
}

const base = (trial: string) => ({
  id: trial,
  task_name: 'lab/one',
  trial_name: trial,
  task_checksum: 'abc',
  config: { agent: { kwargs: { reasoning_effort: 'high' } } },
  agent_info: { name: 'codex', version: '1.2', model_info: { name: 'gpt', provider: 'openai' } },
  agent_result: { n_input_tokens: 100, n_cache_tokens: 40, n_output_tokens: 7, cost_usd: 0.25 },
  verifier_result: { rewards: { reward: 1 } },
  started_at: '2026-11-01T10:00:00Z',
  finished_at: '2026-11-01T10:00:30Z',
})
const failure = (type: string) => ({ exception_type: type, exception_message: 'why', exception_traceback: '' })

test('a job of Harbor is counted like a comparison: first scored trial per task, unscored trials in no count', async () => {
  const folder = writeJob('counted', {
    a: { verifier_result: { rewards: { reward: 0.5 } } },
    b: { started_at: '2026-11-01T11:00:00Z' },
    c: { task_name: 'lab/two', exception_info: failure('AgentTimeoutError') },
    d: { task_name: 'lab/three', verifier_result: null, exception_info: failure('ApiRateLimitError') },
    e: {},
    f: {
      agent_info: { name: 'oracle', version: '1.0', model_info: null },
      config: { agent: { kwargs: {} } },
      agent_result: null,
    },
  })
  const digest = `sha256:${'d'.repeat(64)}`
  writeFileSync(join(folder, 'b/lock.json'), JSON.stringify({ task: { name: 'lab/one', type: 'package', digest } }))
  const { code, out } = await assay(['import', 'harbor-job', folder, '--json'])
  const job = JSON.parse(out)
  expect({ code, unfinished: job.unfinished }).toEqual({ code: 0, unfinished: ['e'] })
  expect(job.settings).toEqual([
    { settingId: 'openai/gpt|codex|high', tasks: 2, passed: 1, accuracy: 50, unscored: 1, costUsd: 1 },
    { settingId: 'reference|oracle|none', tasks: 1, passed: 1, accuracy: 100, unscored: 0, costUsd: null },
  ])
  const byId = Object.fromEntries(job.trials.map((trial: { trial_id: string }) => [trial.trial_id, trial]))
  expect(byId.a).toMatchObject({ state: 'failed', attempt: 1, task_digest: 'sha256:abc', input_tokens: 60 })
  expect(byId.a).toMatchObject({ cache_read_tokens: 40 })
  expect(byId.b).toMatchObject({ state: 'passed', attempt: 2, task_digest: digest, total_seconds: expect.any(Number) })
  expect(byId.c).toMatchObject({ state: 'passed', class: 'agent_timeout', error: 'AgentTimeoutError: why' })
  expect(byId.d).toMatchObject({ state: 'errored', passed: null, error: 'ApiRateLimitError: why' })
})

test('a job of Harbor becomes a SQLite database', async () => {
  const folder = writeJob('stored', { a: {} as object, b: { verifier_result: { rewards: { reward: 0 } } } })
  const file = inScratch('job.db')
  expect(await assay(['import', 'harbor-job', folder, '--sqlite', file])).toMatchObject({ code: 0 })
  const database = new DatabaseSync(file, { readOnly: true })
  expect(database.prepare('select trial_id, passed, rewards from trials').all()).toEqual([
    { trial_id: 'b', passed: 0, rewards: '{"reward":0}' },
  ])
  database.close()
})

test('a folder that is no job, and a result of another shape, are refused with their path', async () => {
  mkdirSync(inScratch('empty'))
  expect(await assay(['import', 'harbor-job', inScratch('empty')])).toMatchObject({
    code: 2,
    err: expect.stringContaining('is no job folder of Harbor'),
  })
  const odd = writeJob('odd', { a: { agent_info: 7 } })
  expect(await assay(['import', 'harbor-job', odd])).toMatchObject({
    code: 2,
    err: expect.stringContaining('a/result.json was not written by Harbor'),
  })
})

const PATCH = 'diff --git a/app.py b/app.py\n--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n'
const TEST_PATCH = PATCH.replaceAll('app.py', 'tests/test_app.py')
const ROWS = [
  {
    instance_id: 'lab__app-1',
    repo: 'lab/app',
    base_commit: 'a'.repeat(40),
    patch: PATCH,
    test_patch: TEST_PATCH,
    problem_statement: 'x must be 2.',
    FAIL_TO_PASS: '["tests/test_app.py::test_x"]',
    PASS_TO_PASS: '[]',
  },
  {
    instance_id: 'lab__app-3',
    repo: 'lab/app',
    patch: PATCH,
    test_patch: TEST_PATCH,
    problem_statement: 'x must be 2.',
    FAIL_TO_PASS: ['tests/test_app.py::test_x'],
    PASS_TO_PASS: [],
    docker_image: 'swerebench/sweb.eval.x86_64.lab_1776_app-3',
    install_config: { test_cmd: 'pytest -rA --color=no' },
  },
]

function writeRows(name: string, rows: readonly unknown[]): string {
  const file = inScratch(name)
  writeFileSync(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
  return file
}

test('rows of SWE-bench and SWE-rebench become tasks that pass the safety check', async () => {
  const folder = inScratch('registry', 'swe', 'mixed')
  const made = await assay(['import', 'swe-bench', writeRows('rows.jsonl', ROWS), folder])
  expect(made).toMatchObject({ code: 0, out: `${folder}\n` })
  expect(readdirSync(folder).toSorted()).toEqual(['lab__app-1', 'lab__app-3'])
  const read = (task: string, path: string) => readFileSync(join(folder, task, path), 'utf8')
  expect(read('lab__app-1', 'environment/Dockerfile')).toContain('FROM swebench/sweb.eval.x86_64.lab_1776_app-1:latest')
  expect(read('lab__app-1', 'solution/solve.sh')).toContain('git apply /solution/solution.patch')
  expect(read('lab__app-3', 'tests/test.sh')).toContain("pytest -rA --color=no 'tests/test_app.py'")
  const checked = JSON.parse((await assay(['check', folder, '--json'])).out)
  const blocks = checked.tasks.flatMap((task: { findings: { severity: string }[] }) =>
    task.findings.filter(({ severity }) => severity === 'block'),
  )
  expect(blocks).toEqual([])
})

test.each([
  [
    'pytest',
    'PASSED tests/test_app.py::test_x\nFAILED tests/test_app.py::test_z - boom\n',
    'tests/test_app.py::test_x',
    1,
  ],
  ['pytest, failed', 'FAILED tests/test_app.py::test_x - assert 1\n', 'tests/test_app.py::test_x', 0],
  ['pytest, passed and failed', 'PASSED a::b\nERROR a::b\n', 'a::b', 0],
  ['Django', 'test_x (admin.Tests) ... ok\n', 'test_x (admin.Tests)', 1],
  ['Django, failed', 'test_x (admin.Tests) ... FAIL\n', 'test_x (admin.Tests)', 0],
  ['SymPy', 'test_x ok\n', 'test_x', 1],
  ['no report', 'command not found\n', 'test_x', 0],
])('tests of an imported task are graded by the report of %s', async (name, log, expected, reward) => {
  const folder = inScratch(`graded-${name.replaceAll(/\W+/g, '-')}`)
  await assay(['import', 'swe-bench', writeRows('graded.jsonl', [{ ...ROWS[0], FAIL_TO_PASS: [expected] }]), folder])
  const tests = join(folder, 'lab__app-1/tests')
  writeFileSync(join(tests, 'log'), log)
  const args = [join(tests, 'grade.py'), join(tests, 'log'), join(tests, 'expected.json')]
  expect(execFileSync('python3', args, { encoding: 'utf8', stdio: 'pipe' })).toBe(`${reward}\n`)
})

test.each([
  ['a row that is not JSON', ['{'], 'is not JSON'],
  ['an id that leaves the folder', [{ ...ROWS[0], instance_id: '../evil' }], 'instance_id'],
  ['an image with a line break', [{ ...ROWS[1], image_name: 'a\nRUN evil' }], 'image_name'],
  ['a row of SWE-smith', [{ ...ROWS[0], test_patch: undefined }], 'SWE-smith cannot be imported'],
  ['two rows with one id', [ROWS[0], ROWS[0]], 'two rows with the id'],
  ['no rows', [], 'has no rows'],
])('%s is refused, and no folder is left', async (name, rows, message) => {
  const file = inScratch(`${name.replaceAll(' ', '-')}.jsonl`)
  writeFileSync(file, rows.map((row) => (typeof row === 'string' ? row : JSON.stringify(row))).join('\n'))
  const before = readdirSync(scratch.path).length
  const refused = await assay(['import', 'swe-bench', file, inScratch('refused')])
  expect(refused).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  expect(readdirSync(scratch.path)).toHaveLength(before)
})

test('a file of rows without a line end is refused before it is read whole', async () => {
  const file = writeRows('endless.jsonl', [])
  truncateSync(file, 3 * 1024 ** 3)
  const refused = await assay(['import', 'swe-bench', file, inScratch('endless')])
  expect(refused.code).toBe(2)
  expect(refused.err).toContain('endless.jsonl:1 is longer than 67108864 characters.')
})
