import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type LoopbackServer, PUBLIC, startServer } from '../../test/support/loopback-servers.ts'
import { openTrialRunner, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { openFolderSource } from '../harbor/folder-source.ts'
import { readTask } from '../harbor/read-task.ts'
import { oracle } from '../harnesses/reference.ts'
import { chooseMode } from './calibrate.ts'
import { runTrial } from './run-trial.ts'

// The internet is a server of this machine at a public address.

let runner: Awaited<ReturnType<typeof openTrialRunner>>
let server: LoopbackServer
beforeAll(async () => {
  runner = await openTrialRunner('bwrap')
  server = await startServer((_, response) => response.end('hello'))
}, 600_000)
afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await runner?.[Symbol.asyncDispose]()
})

/** Prints the answer of the internet server, or nothing. */
const ASK = String.raw`
proxy=$(echo "$http_proxy" | sed 's,http://,,; s,:,/,')
[ -n "$proxy" ] && exec 3<>"/dev/tcp/$proxy" && printf 'GET http://good.example/ HTTP/1.1\r\nConnection: close\r\n\r\n' >&3 && tail -n 1 <&3
`
const SOLVE_BY_ASKING = { 'solution/solve.sh': `#!/bin/bash\n(${ASK}) > /app/hello.txt\n` }
const JUDGE_BY_ASKING = {
  'tests/test.sh': `#!/bin/bash
if [ "$(${ASK})" = hello ] && grep -q hello /app/hello.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n`,
}

async function requestFor(name: string, files: Record<string, string>) {
  const folder = writeTask(join(runner.folder, name), files)
  const { task, digest } = await readTask(await openFolderSource(folder))
  const egress = {
    resolve: async (host: string) => (host === 'good.example' ? [PUBLIC] : []),
    dial: async () => {
      const socket = connect(server.port, '127.0.0.1')
      await once(socket, 'connect')
      return socket
    },
  }
  const signal = new AbortController().signal
  return { task, digest, folder, variables: {}, signal, onPhase: () => {}, outputFolder: runner.folder, egress }
}

const solved = async (name: string, files: Record<string, string>) =>
  runTrial(runner.provider, { ...(await requestFor(name, files)), harness: oracle, verifyMode: 'workspace' })

const declaring = (agent: string, verifier = '') => ({
  'task.toml': taskToml().replace('[agent]', `[agent]\n${agent}`).replace('[verifier]', `[verifier]\n${verifier}`),
})

test('a phase reaches the hosts that its task declares, and the record lists them', async () => {
  const listed = declaring('network_mode = "allowlist"\nallowed_hosts = ["good.example"]')
  const record = await solved('listed', { ...listed, ...SOLVE_BY_ASKING })
  expect(record).toMatchObject({ state: 'passed' })
  expect(record.steps[0]?.network).toMatchObject({
    agent: {
      asked: 'allowlist',
      given: 'allowlist',
      hosts: ['good.example'],
      egress: { connections: 1, reached: ['good.example:80'], refused: { count: 0 } },
    },
    verifier: { asked: 'undeclared', given: 'none', egress: null },
  })
})

test('a phase does not reach undeclared hosts, and the record lists the refused ones', async () => {
  const listed = declaring('network_mode = "allowlist"\nallowed_hosts = ["other.example"]')
  const record = await solved('other', { ...listed, ...SOLVE_BY_ASKING })
  expect(record).toMatchObject({ state: 'failed' })
  expect(record.steps[0]?.network.agent?.egress?.refused).toEqual({
    count: 1,
    first: [{ host: 'good.example:80', reason: 'host_not_listed' }],
  })
})

test('a task that declares no network gets none, and the record says so', async () => {
  const record = await solved('silent', SOLVE_BY_ASKING)
  expect(record).toMatchObject({ state: 'failed' })
  expect(record.steps[0]?.network).toEqual({
    agent: { asked: 'undeclared', given: 'none', hosts: [], egress: null },
    verifier: { asked: 'undeclared', given: 'none', hosts: [], egress: null },
  })
})

test.each([
  ['the verifier', JUDGE_BY_ASKING, { agentNetwork: 'declared', verifierNetwork: 'required' }],
  ['the agent', SOLVE_BY_ASKING, { agentNetwork: 'required', verifierNetwork: 'required' }],
  ['neither', {}, { agentNetwork: 'declared', verifierNetwork: 'declared' }],
])('calibration detects that a task without a declared network needs one for %s', async (name, files, needs) => {
  expect(await chooseMode(runner.provider, await requestFor(name, files))).toMatchObject({
    kind: 'fit',
    mode: 'workspace',
    ...needs,
  })
})

test('calibration does not try networks that the task forbids', async () => {
  const closed = { ...declaring('', 'network_mode = "no-network"'), ...JUDGE_BY_ASKING }
  const found = await chooseMode(runner.provider, await requestFor('closed', closed))
  expect(found.kind).toBe('unfit')
  expect(found.attempts.map(({ verifierNetwork }) => verifierNetwork)).not.toContain('required')
})
