import { expect, test } from 'vitest'
import type { FileContents } from '../../test/support/harbor/folders.ts'
import { readSmallTask, readTaskToml, SMALL_TASK } from '../../test/support/harbor/small-task.ts'
import { readTask } from './read-task.ts'
import { createMemorySource } from './source.ts'

test('applies every default to a minimal task', async () => {
  const { task, warnings } = await readSmallTask({})

  expect(warnings).toEqual([])
  expect(task.files.map(({ path }) => path)).toEqual(['environment/Dockerfile', 'instruction.md', 'tests/test.sh'])
  expect({ ...task, files: [] }).toEqual({
    name: 'small',
    package: null,
    source: null,
    metadata: {},
    environment: {
      os: 'linux',
      folder: 'environment',
      image: null,
      dockerfile: 'environment/Dockerfile',
      compose: null,
      buildTimeoutSec: 600,
      resources: { cpus: null, memoryMb: null, storageMb: null, gpus: null, gpuTypes: null, tpu: null },
      network: { mode: 'undeclared', hosts: [] },
      env: [],
      mcpServers: [],
      skillsDir: null,
      healthcheck: null,
      workdir: null,
    },
    steps: [
      {
        name: null,
        instruction: 'Do it.\n',
        agent: { timeoutSec: null, user: null, network: { mode: 'undeclared', hosts: [] } },
        verifier: {
          timeoutSec: 600,
          user: null,
          env: [],
          network: { mode: 'undeclared', hosts: [] },
          collect: [],
          sandbox: { mode: 'shared' },
          testFolders: ['tests'],
          testScript: 'tests/test.sh',
        },
        healthcheck: null,
        artifacts: [],
        minReward: [],
        workdir: null,
        setup: null,
        solution: null,
        trajectory: null,
      },
    ],
    rewardStrategy: 'mean',
    solutionEnv: [],
    files: [],
  })
})

test('keeps variables unresolved and recognises only whole values', async () => {
  const { task } = await readTaskToml(
    `[environment.env]\nA = "\${TOKEN}"\nB = "\${TOKEN:-none}"\nC = "x \${TOKEN}"\nD = ""\n__proto__ = "y"\n`,
  )

  expect(task.environment.env).toEqual([
    { name: 'A', value: [{ variable: 'TOKEN', fallback: null }] },
    { name: 'B', value: [{ variable: 'TOKEN', fallback: 'none' }] },
    { name: 'C', value: [`x \${TOKEN}`] },
    { name: 'D', value: [] },
    { name: '__proto__', value: ['y'] },
  ])
})

test('preserves metadata as JSON with any keys', async () => {
  const { task } = await readTaskToml(
    '[metadata]\nday = 2026-01-02\nbig = 99999999999999999999\nodd = nan\n[metadata.__proto__]\nx = 1\n[metadata.constructor]\ny = [1.5]\n',
  )

  expect(JSON.stringify(task.metadata)).toBe(
    '{"day":"2026-01-02","big":"99999999999999999999","odd":"NaN","__proto__":{"x":1},"constructor":{"y":[1.5]}}',
  )
  expect(Object.hasOwn({}, 'x')).toBe(false)
})

test('removes canary lines from the instruction', async () => {
  const text = '<!-- BENCHMARK CANARY 123 -->\r\n# canary: x\r\n\r\nDo it.\r\n# canary\r\n'
  const { task } = await readSmallTask({ 'instruction.md': text })

  expect(task.steps[0].instruction).toBe('Do it.\n# canary\n')
})

test('a step inherits settings of the task except the verifier timeout', async () => {
  const toml = `
multi_step_reward_strategy = "final"
artifacts = ["/logs/a"]
agent = { timeout_sec = 100, user = "dev" }
verifier = { timeout_sec = 50, user = 7, env = { A = "1", B = "1" }, network_mode = "no-network" }
environment = { network_mode = "allowlist", allowed_hosts = ["a.example"] }
[[steps]]
name = "one"
[[steps]]
name = "two"
min_reward = { reward = 1, style = 0.5 }
artifacts = [{ source = "/b", destination = "b" }]
agent = { timeout_sec = 5, user = "root", network_mode = "no-network" }
verifier = { timeout_sec = 9, env = { B = "2" }, collect = [{ command = "dump" }] }
healthcheck = { command = "true" }
`
  const { task } = await readTaskToml(toml, {
    'steps/one/instruction.md': 'First.',
    'steps/two/instruction.md': 'Second.',
    'steps/two/tests/test.sh': '',
    'steps/two/workdir/setup.sh': '',
    'steps/two/solution/solve.sh': '',
    'solution/solve.sh': '',
  })
  const [one, two] = task.steps

  expect(task.rewardStrategy).toBe('final')
  expect(one).toMatchObject({
    name: 'one',
    instruction: 'First.',
    agent: { timeoutSec: 100, user: 'dev', network: { mode: 'allowlist', hosts: ['a.example'] } },
    verifier: {
      timeoutSec: 600,
      user: 7,
      network: { mode: 'no-network', hosts: [] },
      testFolders: ['tests'],
      testScript: 'tests/test.sh',
    },
    artifacts: [{ source: '/logs/a', destination: null, exclude: [], service: 'main' }],
    minReward: [],
    workdir: null,
    solution: { folder: 'solution', script: 'solution/solve.sh' },
  })
  expect(two).toMatchObject({
    agent: { timeoutSec: 5, user: 'root', network: { mode: 'no-network', hosts: [] } },
    verifier: {
      timeoutSec: 9,
      env: [
        { name: 'A', value: ['1'] },
        { name: 'B', value: ['2'] },
      ],
      collect: [{ command: 'dump', service: 'main', timeoutSec: 60, user: null }],
      testFolders: ['tests', 'steps/two/tests'],
      testScript: 'steps/two/tests/test.sh',
    },
    minReward: [
      { key: 'reward', atLeast: 1 },
      { key: 'style', atLeast: 0.5 },
    ],
    workdir: 'steps/two/workdir',
    setup: 'steps/two/workdir/setup.sh',
    solution: { folder: 'steps/two/solution', script: 'steps/two/solution/solve.sh' },
    healthcheck: { command: 'true', intervalSec: 5, timeoutSec: 30, startPeriodSec: 0, retries: 3 },
  })
  expect(two?.artifacts.map(({ source }) => source)).toEqual(['/logs/a', '/b'])
})

test.each<[what: string, toml: string, files: FileContents, folder: string, image: string | null, hasTests: boolean]>([
  ['a copy of the agent', '[verifier]\nenvironment_mode = "separate"', {}, 'environment', null, false],
  ['its own settings on the image of the agent', '[verifier.environment]\ncpus = 2', {}, 'environment', null, false],
  ['an image of its own', '[verifier.environment]\ndocker_image = "v:1"', {}, 'tests', 'v:1', true],
  ['built from the tests', '[verifier.environment]', { 'tests/Dockerfile': 'FROM v' }, 'tests', null, true],
])('a separate verifier: %s', async (_, toml, files, folder, image, hasTests) => {
  const { task } = await readTaskToml(toml, files)
  const { sandbox, testScript } = task.steps[0].verifier

  expect(sandbox).toMatchObject({ mode: 'separate', environment: { folder, image } })
  expect(testScript).toBe(hasTests ? null : 'tests/test.sh')
})

test('does not require a Dockerfile beside a prebuilt image', async () => {
  const files = Object.entries(SMALL_TASK).filter(([path]) => path !== 'environment/Dockerfile')
  const { task } = await readTask(
    createMemorySource('x', [...files, ['task.toml', '[environment]\ndocker_image = "a:1"\n']]),
  )

  expect(task.environment).toMatchObject({ image: 'a:1', dockerfile: null, compose: null })
})

test('applies ignore rules to a folder but not to a package', async () => {
  const files = { 'tests/a.pyc': 'x' }

  expect((await readSmallTask(files)).task.files.map(({ path }) => path)).not.toContain('tests/a.pyc')
  const packaged = await readSmallTask(files, { includeIgnored: true })
  expect(packaged.task.files.map(({ path }) => path)).toContain('tests/a.pyc')
  expect(packaged.digest).not.toBe((await readSmallTask(files)).digest)
})
