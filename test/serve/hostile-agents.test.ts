import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { TrialEngine } from '../../src/comparisons/trials/engine.ts'
import { claudeCode } from '../../src/harnesses/claude-code.ts'
import type { AskModel, ModelReply } from '../../src/harnesses/conversation.ts'
import type { Harness } from '../../src/harnesses/harness.ts'
import type { JsonObject } from '../../src/harnesses/json.ts'
import { mini } from '../../src/harnesses/mini.ts'
import type { ModelAccess } from '../../src/harnesses/model-access.ts'
import { createCommandHarness } from '../../src/harnesses/reference.ts'
import type { TrialModel } from '../../src/trials/trial-request.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { openComparisonLab } from '../support/comparisons.ts'
import { watchLoop } from '../support/loop-delay.ts'
import { openTrialRunner, writeTask } from '../support/trials/trial-runner.ts'

/** Runs real trials in a real sandbox with a real database, in the process that also answers requests. */
let app: TestApp
let fixture: Awaited<ReturnType<typeof openTrialRunner>>
let task: string
beforeAll(async () => {
  app = await testApp()
  fixture = await openTrialRunner('bwrap')
  task = writeTask(join(fixture.folder, 'task'), TASK)
}, 300_000)
afterAll(async () => {
  await fixture[Symbol.asyncDispose]()
  await app[Symbol.asyncDispose]()
})

/** A task whose verifier uses the agent's output as the reward. */
const TASK = {
  'tests/test.sh': '#!/bin/bash\ncp -R /app/reward/. /logs/verifier/ || echo 0 > /logs/verifier/reward.txt\n',
  'solution/solve.sh': `#!/bin/bash\nmkdir -p /app/reward; echo '{"reward": 1}' > /app/reward/reward.json\n`,
}
const writes = (json: string) => `mkdir -p reward; printf '%s' '${json}' > reward/reward.json`

/** A program whose output is converted into a trajectory. */
const buildHarness = (line: string): Harness => ({
  ...createCommandHarness(line),
  id: claudeCode.id,
  ...(claudeCode.trajectoryEvents ? { trajectoryEvents: claudeCode.trajectoryEvents } : {}),
})

const access: ModelAccess = {
  model: 'm',
  provider: 'acme',
  protocols: ['openai-chat'],
  contextTokens: 1000,
  outputTokens: 500,
  token: 't',
  protocol: 'openai-chat',
  level: 'high',
  wireLevel: { effort: 'high' },
  baseUrl: 'http://127.0.0.1:9',
}
const toTrialModel = (ask: AskModel): TrialModel => ({
  access,
  ask,
  port: { port: 31_281, onConnection: (socket) => socket.destroy() },
})
const deepArguments = (depth: number): JsonObject => JSON.parse(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`)
const answers =
  (reply: Partial<ModelReply>): AskModel =>
  async () => ({ text: '', thought: '', calls: [], raw: null, stop: 'done', ...reply })

const DEEP_LINE = `printf '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"b","input":'; head -c 3000000 /dev/zero | tr '\\0' '['; echo`
/** One message in many small pieces. */
const PIECES = `yes '{"type":"assistant","message":{"content":[{"type":"text","text":"a"}]}}' | head -c 8000000`
const NAMES = `(cd /logs/artifacts; touch "$(printf 'new\\nline')" "$(printf '\\377\\376')" "$(printf '%0255d' 0)" __proto__ ./-rf "$(printf '\\033[2J')"; cp ./* /app/)`
const NOISE = `printf '\\000\\033]0;x\\007\\377'; exit 255`
/** Files that take long to compare, and thousands of artifacts. */
const LARGE = `for i in 1 2 3 4 5 6; do seq $i 7 900000 | head -c 1000000 > f$i; done; for i in $(seq 3000); do echo $i > /logs/artifacts/$i; done`

type HostileAgent = { harness: Harness; ask?: AskModel }
const AGENTS: HostileAgent[] = [
  { harness: createCommandHarness(writes('{"a\\u0000b": 1}')) },
  { harness: createCommandHarness(`${writes('{"\\ud800": 1}')}; ${NAMES}; ${NOISE}`) },
  { harness: createCommandHarness('mkdir reward; mkfifo reward/reward.json') },
  { harness: buildHarness(`${PIECES}; for i in 1 2; do ${DEEP_LINE}; done; ${LARGE}`) },
  {
    harness: mini,
    ask: answers({ calls: [{ id: 'a', name: 'shell', arguments: deepArguments(8000) }], stop: 'tools' }),
  },
]

let runs = 0
const engine: TrialEngine = {
  calibrate: async () => ({
    kind: 'fit',
    mode: 'workspace',
    agentNetwork: 'declared',
    verifierNetwork: 'declared',
    carried: [],
  }),
  run({ outputFolder }, signal) {
    const { harness, ask } = AGENTS[runs++] ?? { harness: createCommandHarness('true') }
    const more = { signal, outputFolder, savesPatch: true, ...(ask ? { model: toTrialModel(ask) } : {}) }
    return fixture.run(task, harness, 'workspace', more)
  },
}

test('a trial is scored once and the service stays responsive, whatever agent, model or verifier write', async () => {
  const lab = await openComparisonLab(app, engine)
  // Loads modules before the measurement.
  await fixture.run(task, buildHarness('echo "{}"'), 'workspace', { savesPatch: true })
  const { body } = await lab.create({ models: [{ ...lab.body().models[0], harnesses: ['nop'] }] })
  const loop = watchLoop()
  await lab.work()
  const delayMs = loop.percentile(0.99)
  expect(runs).toBe(AGENTS.length)
  expect(await lab.read(body.id)).toMatchObject({ state: 'completed', trials: { failed: 5, errored: 0 } })
  for (const trial of await lab.trials(body.id)) {
    expect(trial).toMatchObject({ state: 'failed', reward: 0, retries: 0 })
    expect(['verified', 'agent_exit']).toContain(trial.class)
  }
  expect(delayMs, 'milliseconds for which the event loop was blocked (p99)').toBeLessThanOrEqual(100)
})

test('a trial removes the files of an earlier trial from the same folder', async () => {
  const outputFolder = join(fixture.folder, 'again')
  mkdirSync(outputFolder)
  const run = (harness: Harness) => fixture.run(task, harness, 'workspace', { outputFolder, savesPatch: true })
  const said = '{"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]}}'
  await run(buildHarness(`echo '${said}'; touch x /logs/artifacts/y; ${writes('no reward')}`))
  const left = ['changes.patch', 'trajectory-1.json', 'control', 'artifacts', 'agent-1.log']
  const found = () => left.filter((name) => existsSync(join(outputFolder, name)))
  expect(found()).toEqual(left)
  await run(createCommandHarness('true'))
  expect(found()).toEqual(['agent-1.log'])
})
