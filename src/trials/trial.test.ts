import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { nop } from '../harnesses/nop.ts'
import { oracle } from '../harnesses/oracle.ts'
import { shellCommand } from '../harnesses/shell-command.ts'
import { calibrate } from './calibrate.ts'
import type { VerifyMode } from './record.ts'
import { IMAGE, openWorkbench, writeTask } from './testing/workbench.ts'

let bench: Awaited<ReturnType<typeof openWorkbench>>
let hello: string
beforeAll(async () => {
  bench = await openWorkbench('bwrap')
  hello = writeTask(join(bench.folder, 'hello'))
}, 600_000)
afterAll(async () => bench[Symbol.asyncDispose]())

test('the oracle scores 1 and nop 0 in every mode', async () => {
  for (const mode of ['workspace', 'snapshot', 'shared-cold'] as const) {
    expect(await bench.run(hello, oracle, mode)).toMatchObject({
      state: 'passed',
      class: 'verified',
      reward: 1,
      verifyMode: mode,
    })
    expect(await bench.run(hello, nop, mode)).toMatchObject({ state: 'failed', class: 'verified', reward: 0 })
  }
})

/** Attacks on the verdict, and whether they win: 1 is a cheat that got away with it. */
const ATTACKS: { name: string; line: string; wins: Record<VerifyMode, 0 | 1> }[] = [
  {
    name: 'a reward that lies ready',
    line: 'mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt',
    wins: none(),
  },
  {
    name: 'a daemon that writes the reward for ever',
    line: 'setsid sh -c "while :; do mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; sleep 0.01; done" >/dev/null 2>&1 &',
    wins: none(),
  },
  {
    name: 'a daemon that waits for the tests, then does the work',
    line: 'setsid sh -c "until [ -d /tests ]; do sleep 0.01; done; echo hello > /app/hello.txt" >/dev/null 2>&1 &',
    wins: none(),
  },
  {
    name: 'planted tests',
    line: 'mkdir -p /tests; printf "#!/bin/sh\\necho 1 > /logs/verifier/reward.txt" > /tests/test.sh',
    wins: none(),
  },
  { name: 'tests that are a link', line: 'mkdir -p /app/t; ln -s /app/t /tests', wins: none() },
  {
    name: 'a log folder that is a link',
    line: 'mkdir -p /app/l; echo 1 > /app/l/reward.txt; mkdir -p /logs; ln -s /app/l /logs/verifier',
    wins: none(),
  },
  {
    name: 'a program put before the real one',
    line: 'printf "#!/bin/sh\\necho hello" > /usr/local/bin/cat; chmod +x /usr/local/bin/cat',
    wins: onlyShared(),
  },
  { name: 'a real program replaced', line: 'printf "#!/bin/sh\\necho hello" > /bin/cat', wins: onlyShared() },
  {
    name: 'a shell that reads a file of ours',
    line: 'echo "cat() { echo hello; }" >> /etc/bash.bashrc; echo "cat() { echo hello; }" > /etc/profile.d/x.sh',
    wins: none(),
  },
  {
    name: 'a library that is always loaded',
    line: 'echo /app/evil.so > /etc/ld.so.preload; echo x > /app/evil.so',
    wins: none(),
  },
  { name: 'a pipe in place of the answer', line: 'mkfifo /app/hello.txt', wins: none() },
  {
    name: 'a link out of the workspace',
    line: 'mkdir -p /root/x; echo hello > /root/x/h; ln -s /root/x/h /app/hello.txt',
    wins: { workspace: 0, snapshot: 1, 'shared-cold': 1 },
  },
]

function none() {
  return { workspace: 0, snapshot: 0, 'shared-cold': 0 } as const
}
function onlyShared() {
  return { workspace: 0, snapshot: 0, 'shared-cold': 1 } as const
}

test.each(ATTACKS)('attack: $name', async ({ line, wins }) => {
  for (const mode of ['workspace', 'snapshot', 'shared-cold'] as const) {
    const record = await bench.run(hello, shellCommand(line), mode)
    expect({ mode, won: record.state === 'passed' ? 1 : 0 }).toEqual({ mode, won: wins[mode] })
  }
})

test('an agent that runs out of time is stopped, and what it did is still judged', async () => {
  const toml = `schema_version = "1.4"\n[task]\nname = "a/b"\n[environment]\ndocker_image = "${IMAGE}"\nworkdir = "/app"\n[agent]\ntimeout_sec = 1\n`
  const task = writeTask(join(bench.folder, 'slow'), { 'task.toml': toml })
  const record = await bench.run(task, shellCommand('echo hello > hello.txt; trap "" TERM; sleep 60'))
  expect(record).toMatchObject({ state: 'passed', class: 'agent_timeout', limit: 'seconds' })
})

test('an agent that exits with an error is judged all the same', async () => {
  expect(await bench.run(hello, shellCommand('echo hello > hello.txt; exit 7'))).toMatchObject({
    state: 'passed',
    class: 'agent_exit',
  })
})

test.each([
  ['leaves nothing', '#!/bin/sh\nexit 0\n'],
  ['leaves a link', '#!/bin/sh\nln -s /proc/sys/net/ipv4/ip_forward /logs/verifier/reward.txt\n'],
  ['leaves a pipe', '#!/bin/sh\nmkfifo /logs/verifier/reward.txt\n'],
  ['leaves no number', '#!/bin/sh\necho NaN > /logs/verifier/reward.txt\n'],
  [
    'contradicts itself',
    '#!/bin/sh\necho 0 > /logs/verifier/reward.txt; echo \'{"reward": 1}\' > /logs/verifier/reward.json\n',
  ],
])('a verifier that %s is an error of the verifier', async (name, script) => {
  const task = writeTask(join(bench.folder, `verifier ${name}`), { 'tests/test.sh': script })
  const record = await bench.run(task, oracle)
  expect(record).toMatchObject({ state: 'errored', class: 'verifier_error', reward: null })
  expect(record.error).toBeTruthy()
})

test('the agent sees neither tests nor solution nor the name of the task', async () => {
  const line =
    'ls -d /tests /solution 2>/dev/null; env | grep -i hello; grep -rl "assay/hello" /proc/self/environ /app 2>/dev/null; exit 0'
  const record = await bench.run(hello, shellCommand(`[ -z "$(${line})" ] && echo hello > hello.txt`))
  expect(record).toMatchObject({ state: 'passed' })
})

test('calibration takes the strictest mode in which the solution passes', async () => {
  const calibrated = async (files: Record<string, string>, name: string) => {
    const { readTask } = await import('../harbor/read-task.ts')
    const { inFolder } = await import('../harbor/folder-source.ts')
    const folder = writeTask(join(bench.folder, name), files)
    const { task, digest } = await readTask(await inFolder(folder))
    const signal = new AbortController().signal
    return calibrate(bench.provider, {
      task,
      digest,
      folder,
      variables: {},
      signal,
      onPhase: () => {},
      outputFolder: bench.folder,
    })
  }
  expect(await calibrated({}, 'strict')).toMatchObject({ kind: 'fit', mode: 'workspace' })
  const outside = {
    'solution/solve.sh': '#!/bin/sh\necho hello > /srv/hello.txt\n',
    'tests/test.sh':
      '#!/bin/sh\nif grep -q hello /srv/hello.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n',
  }
  expect(await calibrated(outside, 'outside')).toMatchObject({ kind: 'fit', mode: 'snapshot' })
  const free = { 'tests/test.sh': '#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n' }
  expect(await calibrated(free, 'free')).toMatchObject({ kind: 'unfit', reason: 'Doing nothing passes its tests.' })
  const wrong = { 'solution/solve.sh': '#!/bin/sh\ntrue\n' }
  expect(await calibrated(wrong, 'wrong')).toMatchObject({ kind: 'unfit' })
})
