import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readTrialById } from '../src/comparisons/schema.ts'
import type { ComparisonTrial } from '../src/comparisons/shapes/schema.ts'
import { type TestApp, testApp } from '../test/support/app.ts'
import { assay, scratchFolder } from '../test/support/assay-command.ts'
import { createScriptedEngine, openComparisonLab, openRepositoryComparisonLab } from '../test/support/comparisons.ts'

const HOSTILE = '\u001b]0;owned\u0007\u001b[2J\u202eend'
const UNSAFE = /[^\P{Cc}\n]|\p{Bidi_Control}/u
const TRAJECTORY = {
  schema_version: 'ATIF-v1.7',
  agent: { name: 'mini', version: '1', model_name: 'm' },
  steps: [
    { step_id: 1, source: 'user', message: 'Say hello.' },
    {
      step_id: 2,
      source: 'agent',
      message: `I will.${HOSTILE}`,
      tool_calls: [{ tool_call_id: 'a', function_name: 'shell', arguments: { command: 'ls' } }],
      observation: { results: [{ source_call_id: 'a', content: 'README' }] },
    },
  ],
}

const scratch = scratchFolder()
let app: TestApp
let ids: { passed: string; failed: string }
let comparison: string

/** Every trial leaves logs, a patch, a trajectory and a file of the agent. */
beforeAll(async () => {
  app = await testApp()
  const engine = createScriptedEngine(({ outputFolder }) => {
    writeFileSync(join(outputFolder, 'verifier-1.log'), `one\ntwo ${HOSTILE}\n`)
    writeFileSync(join(outputFolder, 'changes.patch'), '--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n')
    writeFileSync(join(outputFolder, 'trajectory-1.json'), JSON.stringify(TRAJECTORY))
    mkdirSync(join(outputFolder, 'artifacts'))
    writeFileSync(join(outputFolder, 'artifacts', 'data.bin'), Buffer.from([0, 27, 255]))
    return {}
  })
  const lab = await openComparisonLab(app, engine)
  const { body } = await lab.create()
  await lab.work()
  comparison = body.id
  const trials: ComparisonTrial[] = await lab.trials(body.id)
  const idOf = (state: string) => trials.find((trial) => trial.state === state)?.id ?? 'none'
  ids = { passed: idOf('passed'), failed: idOf('failed') }
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  scratch.remove()
})

const run = (...args: string[]) => assay(args, { env: { ASSAY_URL: app.url, ASSAY_KEY: app.adminKey } })

test('lists ids that every command of trials accepts, without naming the comparison', async () => {
  const listed = await run('comparisons', 'trials', 'assay/quick', comparison)
  expect(listed.out).toMatch(new RegExp(`^${ids.passed} .*passed`, 'm'))
  const shown = await run('trials', 'show', ids.failed)
  expect(shown.code, shown.err).toBe(0)
  expect(shown.out).toMatch(new RegExp(`^comparison +assay/quick ${comparison}$`, 'm'))
  expect(shown.out).toMatch(/^result +failed \(verified\)$/m)
  expect(shown.out).toMatch(/^reward +0$/m)
  expect(shown.err).toContain(`assay trials logs|diff|trajectory|artifacts ${ids.failed}`)
  expect(JSON.parse((await run('trials', 'show', ids.failed, '--json')).out)).toMatchObject({
    id: ids.failed,
    comparison: { id: comparison, scope: { kind: 'benchmark', datasetOrg: 'assay', dataset: 'quick' } },
  })
})

test('prints logs, the last lines of them, the patch and the trajectory', async () => {
  const logs = await run('trials', 'logs', ids.passed, '--follow')
  expect(logs.err).toMatch(/^==> agent\.log <==$/m)
  expect(logs.out).toMatch(/^oracle worked on assay\/\S+\none\ntwo /m)
  expect((await run('trials', 'logs', ids.passed, '--lines', '1')).out).not.toMatch(/^one$/m)
  expect((await run('trials', 'logs', ids.passed, '--lines', 'x')).code).toBe(2)
  expect((await run('trials', 'diff', ids.passed)).out).toMatch(/^-old\n\+new$/m)
  const trajectory = await run('trials', 'trajectory', ids.passed)
  expect(trajectory.out).toMatch(
    /^mini 1 m$[\s\S]*^\[2\] agent\n {2}I will\..*\n {2}shell: \{"command":"ls"\}\n {2}> README$/m,
  )
  for (const { out, err } of [logs, trajectory]) expect(out + err).not.toMatch(UNSAFE)
  const whole = JSON.parse((await run('trials', 'trajectory', ids.passed, '--json')).out)
  expect(whole.trajectories).toEqual([TRAJECTORY])
})

test('lists files, prints one as text and saves one as it is', async () => {
  expect((await run('trials', 'artifacts', ids.passed)).out).toMatch(/^artifacts\/data\.bin +3 B/m)
  const printed = await run('trials', 'artifacts', ids.passed, 'artifacts/data.bin')
  expect(printed.out).not.toMatch(UNSAFE)
  const path = join(scratch.path, 'data.bin')
  expect((await run('trials', 'artifacts', ids.passed, 'artifacts/data.bin', '--output', path)).code).toBe(0)
  expect([...readFileSync(path)]).toEqual([0, 27, 255])
  const again = await run('trials', 'artifacts', ids.passed, 'artifacts/data.bin', '--output', path)
  expect(again).toMatchObject({ code: 2, err: `error: ${path} already exists.\n` })
  expect(existsSync(path)).toBe(true)
})

test('reports missing trials and files', async () => {
  expect((await run('trials', 'show', 'x')).err).toContain('Not an id. List them with `assay comparisons trials`.')
  expect((await run('trials', 'show', '00000000-0000-8000-8000-000000000000')).err).toContain('not found')
  expect((await run('trials', 'artifacts', ids.passed, 'none')).err).toContain('The trial has no none.')
})

test('a trial of a repository is found by its id, and not from another workspace', async () => {
  const lab = await openRepositoryComparisonLab(app)
  const { body } = await lab.create()
  await lab.work()
  const [trial] = await lab.trials(body.id)
  const read = await app.call(readTrialById, { params: { trialId: trial.id } })
  expect(read.body).toMatchObject({ id: trial.id, comparison: { id: body.id, scope: { kind: 'repository' } } })
  expect((await run('trials', 'logs', trial.id)).out).toContain('worked on')
  const other = await app.otherWorkspace('elsewhere')
  const foreign = await app.call(readTrialById, { params: { org: other.login, trialId: trial.id }, key: other.key })
  expect(foreign.status).toBe(404)
})
