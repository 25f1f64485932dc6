import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { parquetReadObjects } from 'hyparquet'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../support/app.ts'
import { assay, type CommandResult, scratchFolder } from '../support/assay-command.ts'
import { createScriptedEngine, openComparisonLab } from '../support/comparisons.ts'
import { startHarborView } from '../support/harbor-program.ts'
import { installPython } from '../support/python-packages.ts'

const TRAJECTORY = JSON.stringify({
  schema_version: 'ATIF-v1.7',
  agent: { name: 'oracle', version: '1' },
  steps: [
    { step_id: 1, source: 'user', message: 'Round half even.' },
    {
      step_id: 2,
      source: 'agent',
      message: 'I look at the file.',
      reasoning_content: 'Where is it?',
      tool_calls: [{ tool_call_id: 'c1', function_name: 'shell', arguments: { command: 'ls' } }],
      observation: { results: [{ source_call_id: 'c1', content: 'money.py' }] },
    },
  ],
})
const isLong = process.env.ASSAY_TEST_LONG !== undefined

const scratch = scratchFolder()
const inScratch = (name: string): string => join(scratch.path, name)
let app: TestApp
let id: string
let states: Record<string, string>

const run = (...args: string[]): Promise<CommandResult> =>
  assay(['comparisons', 'export', 'assay/quick', id, ...args], {
    env: { ASSAY_URL: app.url, ASSAY_KEY: app.adminKey },
  })

beforeAll(async () => {
  app = await testApp()
  const engine = createScriptedEngine(({ outputFolder }) => {
    writeFileSync(join(outputFolder, 'verifier.log'), 'collected 2 items\n')
    writeFileSync(join(outputFolder, 'changes.patch'), 'diff --git a/a b/a\n')
    writeFileSync(join(outputFolder, 'trajectory.json'), TRAJECTORY)
    return {}
  })
  const lab = await openComparisonLab(app, engine)
  const { body } = await lab.create({ attempts: 2 })
  await lab.work()
  id = body.id
  const trials: { id: string; state: string }[] = await lab.trials(id)
  states = Object.fromEntries(trials.map((trial) => [trial.id, trial.state]))
}, 120_000)
afterAll(async () => {
  await app?.[Symbol.asyncDispose]()
  scratch.remove()
})

test('SQLite and Parquet contain every trial with the same values', async () => {
  expect(await run('--sqlite', inScratch('trials.db'))).toMatchObject({ code: 0, out: `${inScratch('trials.db')}\n` })
  expect(await run('--parquet', inScratch('trials.parquet'))).toMatchObject({ code: 0 })
  const database = new DatabaseSync(inScratch('trials.db'), { readOnly: true })
  const rows = database.prepare('select * from trials').all()
  database.close()
  expect(Object.fromEntries(rows.map((row) => [row.trial_id, row.state]))).toEqual(states)
  expect(rows).toHaveLength(20)
  expect(rows.find(({ harness }) => harness === 'oracle')).toMatchObject({ passed: 1, reward: 1, scope: 'assay/quick' })
  const bytes = readFileSync(inScratch('trials.parquet'))
  const file = new Uint8Array(bytes).buffer
  const objects = await parquetReadObjects({ file })
  const plain = objects.map((object) =>
    Object.fromEntries(
      Object.entries(object).map(([name, value]) => [
        name,
        typeof value === 'bigint' || typeof value === 'boolean'
          ? Number(value)
          : value !== null && typeof value === 'object'
            ? JSON.stringify(value)
            : (value ?? null),
      ]),
    ),
  )
  expect(plain).toEqual(rows.map((row) => ({ ...row })))
})

test('a Harbor job folder has every trial, and importing it gives the same results', async () => {
  const folder = inScratch('jobs/exported')
  expect(await run('--harbor', folder)).toMatchObject({ code: 0, err: expect.stringContaining('harbor view') })
  const trials = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory())
  expect(trials).toHaveLength(20)
  expect(readFileSync(join(folder, trials[0]?.name ?? '', 'agent/trajectory.json'), 'utf8')).toBe(TRAJECTORY)
  const lock = JSON.parse(readFileSync(join(folder, trials[0]?.name ?? '', 'lock.json'), 'utf8'))
  expect(lock.task).toMatchObject({ type: 'package', digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) })
  const imported = JSON.parse((await assay(['import', 'harbor-job', folder, '--json'])).out)
  expect(imported.trials[0].task_digest).toMatch(/^sha256:[0-9a-f]{64}$/)
  expect(
    Object.fromEntries(
      imported.trials.map((trial: { trial_id: string; state: string }) => [trial.trial_id, trial.state]),
    ),
  ).toEqual(states)
  expect(imported.settings).toMatchObject([
    { settingId: 'reference|oracle|none', tasks: 5, passed: 5, accuracy: 100 },
    { settingId: 'reference|nop|none', tasks: 5, passed: 0, accuracy: 0 },
  ])
})

test('there is an Inspect log per setting, with attempts as epochs', async () => {
  expect(await run('--inspect', inScratch('logs'))).toMatchObject({ code: 0 })
  const logs = readdirSync(inScratch('logs')).map((name) =>
    JSON.parse(readFileSync(join(inScratch('logs'), name), 'utf8')),
  )
  expect(logs).toHaveLength(2)
  for (const log of logs) expect(log).toMatchObject({ version: 2, status: 'success', eval: { config: { epochs: 2 } } })
  const [sample] = logs.find(({ eval: { solver } }) => solver === 'oracle').samples
  expect(sample).toMatchObject({ input: 'Round half even.', scores: { reward: { value: 1 } } })
  expect(sample.messages.map(({ role }: { role: string }) => role)).toEqual(['user', 'assistant', 'tool'])
})

const READ_LOGS = `
import json, sys
from inspect_ai.log import list_eval_logs, read_eval_log
found = []
for info in list_eval_logs(sys.argv[1]):
    log = read_eval_log(info)
    found.append([log.eval.solver, log.status, len(log.samples), sum(s.scores["reward"].value for s in log.samples), log.samples[0].messages[1].tool_calls[0].function])
print(json.dumps(sorted(found)))
`

test.runIf(isLong)(
  'Inspect itself reads the logs',
  async () => {
    const python = await installPython('inspect_ai', '0.3.285')
    expect(await run('--inspect', inScratch('read-by-inspect'))).toMatchObject({ code: 0 })
    const out = execFileSync(python, ['-c', READ_LOGS, inScratch('read-by-inspect')], { encoding: 'utf8' })
    expect(JSON.parse(out)).toEqual([
      ['nop', 'success', 10, 0, 'shell'],
      ['oracle', 'success', 10, 10, 'shell'],
    ])
  },
  600_000,
)

test.runIf(isLong)(
  '`harbor view` opens the job folder, with every trial, its reward and its trajectory',
  async () => {
    expect(await run('--harbor', inScratch('viewed/job'))).toMatchObject({ code: 0 })
    await using view = await startHarborView(inScratch('viewed'))
    // biome-ignore lint/suspicious/noExplicitAny: the shapes of another program's API
    const read = async (path: string): Promise<any> => {
      const answer = await fetch(`${view.url}/api/jobs${path}`)
      expect(answer.status, path).toBe(200)
      return answer.json()
    }
    expect(await read('')).toMatchObject({ total: 1, items: [{ name: 'job', n_total_trials: 20 }] })
    expect((await read('/job/tasks')).total).toBe(10)
    const { items, total } = await read('/job/trials?page_size=100')
    expect(total).toBe(20)
    const rewards = items.map(({ agent_name: agent, reward }: { agent_name: string; reward: number }) => [
      agent,
      reward,
    ])
    expect(new Set(rewards.map(String))).toEqual(new Set(['oracle,1', 'nop,0']))
    const trial = `/job/trials/${items[0].name}`
    expect((await read(`${trial}/trajectory`)).steps).toHaveLength(2)
    expect(JSON.stringify(await read(`${trial}/verifier-output`))).toContain('collected 2 items')
  },
  1_800_000,
)

test('wrong use writes nothing: two formats, a format with --output, an existing file', async () => {
  const target = inScratch('wrong')
  expect(await run('--sqlite', target, '--parquet', target)).toMatchObject({ code: 2 })
  expect(await run('--sqlite', target, '--output', target)).toMatchObject({ code: 2 })
  expect(existsSync(target)).toBe(false)
  writeFileSync(target, 'mine')
  expect(await run('--parquet', target)).toMatchObject({ code: 2, err: expect.stringContaining('already exists') })
  expect(readFileSync(target, 'utf8')).toBe('mine')
})
