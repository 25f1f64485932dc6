import { existsSync, lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { IMAGE, openTrialRunner, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness, nop, oracle } from '../harnesses/reference.ts'

let runner: Awaited<ReturnType<typeof openTrialRunner>>
beforeAll(async () => {
  runner = await openTrialRunner('bwrap')
}, 600_000)
afterAll(async () => runner[Symbol.asyncDispose]())

const kept = (...path: string[]) => join(runner.folder, 'artifacts', ...path)

test('artifacts are stored at their destinations, with a manifest', async () => {
  const top = `artifacts = ["hello.txt", { source = "/srv/out", destination = "a/b", exclude = ["*.tmp", "cache"] }, "/nothing"]`
  const task = writeTask(join(runner.folder, 'kept'), { 'task.toml': taskToml({ top }) })
  const work = `echo hello > hello.txt; mkdir -p /srv/out/cache; cd /srv/out; echo 1 > x.txt; echo 2 > y.tmp; echo 3 > cache/z
    echo free > /logs/artifacts/free.txt`
  const record = await runner.run(task, createCommandHarness(work))
  expect(record).toMatchObject({ state: 'passed' })
  expect(record.steps[0]?.artifacts).toMatchObject([
    { source: 'hello.txt', service: 'main', destination: 'hello.txt', files: 1, bytes: 6, error: null },
    { source: '/srv/out', destination: 'a/b', files: 1, bytes: 2 },
    { source: '/nothing', destination: null, files: 0 },
    { source: '/logs/artifacts', destination: 'artifacts', files: 1 },
  ])
  expect(runner.output('artifacts', 'a/b/x.txt')).toBe('1\n')
  expect(runner.output('artifacts', 'artifacts/free.txt')).toBe('free\n')
  expect(readdirSync(kept('a/b'))).toEqual(['x.txt'])
  expect(JSON.parse(runner.output('artifacts', 'manifest.json'))).toEqual({ artifacts: record.steps[0]?.artifacts })
})

test('hostile artifacts lead nowhere, overwrite nothing and do not stop the trial', async () => {
  const top = `artifacts = ["/srv/out", "/srv/link", "/srv/dev", { source = "/srv/m", destination = "out" }]`
  const task = writeTask(join(runner.folder, 'hostile'), { 'task.toml': taskToml({ top }) })
  const work = `echo hello > hello.txt; mkdir -p /srv/out/in /srv/m; cd /srv/out
    ln -s /etc/passwd passwd; ln -s in/../../../../../etc away; ln -s in inside; mkfifo pipe; echo 1 > 'back\\slash'
    printf x > "$(printf 'new\\nline')"; echo ok > in/ok; ln -s /etc/shadow /srv/link; mkfifo /srv/dev; echo m > /srv/m/m
    d=0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789
    cd /logs/artifacts; for i in $(seq 60); do mkdir $d && cd $d || break; done`
  const record = await runner.run(task, createCommandHarness(work))
  expect(record).toMatchObject({ state: 'passed' })
  const [out, link, dev, second] = record.steps[0]?.artifacts ?? []
  expect(out?.leftOut.toSorted()).toEqual([
    'out/away',
    'out/back\\slash',
    'out/inside',
    'out/new\nline',
    'out/passwd',
    'out/pipe',
  ])
  expect(readdirSync(kept('out'))).toEqual(['in'])
  expect(link).toMatchObject({ files: 0 })
  expect(dev).toMatchObject({ files: 0 })
  expect(existsSync(kept('link'))).toBe(false)
  expect(second?.destination).toBe('2-out')
  expect(lstatSync(kept('2-out', 'm')).isFile()).toBe(true)
})

const hooks = (...commands: string[]) =>
  commands.map((command) => `[[verifier.collect]]\ncommand = ${JSON.stringify(command)}\ntimeout_sec = 5\n`).join('')

const HOOK_TESTS =
  '#!/bin/bash\n[ "$(cat /app/hello.txt)" = "hello hook" ]; echo $((1 - $?)) > /logs/verifier/reward.txt\n'

test.each([
  ['after the agent', ''],
  ['inside a running environment', '[environment.healthcheck]\ncommand = "true"\n'],
])(
  'hooks run %s, in order, and their failures are only recorded',
  async (name, end) => {
    const commands = ['exit 4', 'sed -i "s/$/ hook/" hello.txt', 'sleep 60', 'id -un > /logs/artifacts/who']
    const task = writeTask(join(runner.folder, `hooks ${name}`), {
      'task.toml': taskToml({ top: 'artifacts = ["/app/hello.txt"]', end: end + hooks(...commands) }),
      'tests/test.sh': HOOK_TESTS,
    })
    const record = await runner.run(task, oracle)
    expect(record).toMatchObject({ state: 'passed' })
    expect(record.steps[0]?.hooks.map(({ exit }) => exit?.limit ?? exit?.code)).toEqual([4, 0, 'seconds', 0])
    expect(runner.output('artifacts', 'hello.txt')).toBe('hello hook\n')
    expect(runner.output('artifacts', 'artifacts/who')).toBe('root\n')
  },
  60_000,
)

test('hooks also run for an agent that does nothing', async () => {
  const task = writeTask(join(runner.folder, 'idle hook'), {
    'task.toml': taskToml({ end: hooks('echo hello hook > hello.txt') }),
    'tests/test.sh': HOOK_TESTS,
  })
  expect(await runner.run(task, nop)).toMatchObject({ state: 'passed', steps: [{ agent: null }] })
})

const APART = `#!/bin/bash
# Of the agent's files there is only what was handed over.
[ "$(cat /app/hello.txt)" = hello ] && [ ! -e /app/more.txt ] && [ -x /app/bin/run ] && [ "$(readlink /app/bin/link)" = run ]
echo $((1 - $?)) > /logs/verifier/reward.txt
`

const apart = (name: string) =>
  writeTask(join(runner.folder, name), {
    'task.toml': taskToml({
      top: 'artifacts = ["/app/hello.txt", "/app/bin"]',
      verifier: 'environment_mode = "separate"',
    }),
    'tests/Dockerfile': `FROM ${IMAGE}\nCOPY test.sh /tests/test.sh\nRUN chmod +x /tests/test.sh\n`,
    'tests/test.sh': APART,
    'solution/solve.sh':
      '#!/bin/bash\ncd /app; echo hello > hello.txt; touch more.txt; mkdir bin; echo x > bin/run; chmod +x bin/run; ln -s run bin/link\n',
  })

test('a separate verifier sees the artifacts at their paths, and nothing else', async () => {
  const task = apart('apart')
  expect(await runner.run(task, oracle)).toMatchObject({ state: 'passed', verifyMode: 'workspace' })
  expect(await runner.run(task, nop, 'shared-live')).toMatchObject({
    state: 'failed',
    reward: 0,
    verifyMode: 'workspace',
  })
})

test.each([
  ['planted tests', 'mkdir -p /tests; echo "echo 1 > /logs/verifier/reward.txt" > /tests/test.sh'],
  ['a planted reward', 'mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt'],
  ['a planted program', 'printf "#!/bin/sh\\necho hello" > /bin/cat'],
])('a separate verifier is not deceived by %s', async (_, work) => {
  expect(await runner.run(apart('not fooled'), createCommandHarness(work))).toMatchObject({
    state: 'failed',
    reward: 0,
  })
})

test('a separate verifier may have a healthcheck and services', async () => {
  const task = writeTask(join(runner.folder, 'apart and alive'), {
    'task.toml': taskToml({
      top: 'artifacts = ["/app/hello.txt"]',
      end: '[verifier.environment]\nworkdir = "/"\n[verifier.environment.healthcheck]\ncommand = "touch /ready"\n',
    }),
    'tests/Dockerfile': `FROM ${IMAGE}\nCOPY test.sh /tests/test.sh\nRUN chmod +x /tests/test.sh\n`,
    'tests/test.sh':
      '#!/bin/bash\n[ -e /ready ] && grep -q hello /app/hello.txt; echo $((1 - $?)) > /logs/verifier/reward.txt\n',
  })
  expect(await runner.run(task, oracle)).toMatchObject({ state: 'passed' })
})
