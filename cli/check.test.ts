import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { RULES_VERSION } from '../src/harbor/safety/check-task.ts'
import { assay, scratchFolder } from '../test/support/assay-command.ts'
import { writeFiles } from '../test/support/harbor/folders.ts'
import { SMALL_TASK } from '../test/support/harbor/small-task.ts'

const folder = scratchFolder()
const tasks = join(folder.path, 'tasks')
const COMPOSE = { 'environment/docker-compose.yaml': 'services: {main: {build: ., privileged: true}}\n' }
const TIMED = { 'task.toml': 'schema_version = "1.4"\n[agent]\ntimeout_sec = 60\n' }
beforeAll(async () => {
  await writeFiles(join(tasks, 'good'), { ...SMALL_TASK, ...TIMED })
  await writeFiles(join(tasks, 'bad'), { ...SMALL_TASK, ...COMPOSE })
})
afterAll(folder.remove)

const ESTIMATE = 'verifiers, estimated from their files: 0 strong, N standard, 0 weak'
const STANDARD = { strength: 'standard', reason: 'The tests only read what the agent left.' }
const PLACE = 'environment/docker-compose.yaml.services.main.privileged'

test('prints no findings for a good task', async () => {
  expect(await assay(['check', join(tasks, 'good')])).toEqual({
    code: 0,
    out: `1 checked, 0 refused (rules ${RULES_VERSION})\n${ESTIMATE.replace('N', '1')}\n`,
    err: '',
  })
})

test('checks a folder of tasks, lists refusals before warnings and fails', async () => {
  const { code, out, err } = await assay(['check', tasks])
  expect({ code, err }).toEqual({ code: 1, err: '' })
  expect(out.split('\n').map((line) => line.replaceAll(/ {2,}/g, ' '))).toEqual([
    'bad',
    ` block compose_privileged ${PLACE} The service would have root privileges on the host.`,
    ' warn timeout_missing agent.timeout_sec The agent has no timeout.',
    `2 checked, 1 refused (rules ${RULES_VERSION})`,
    ESTIMATE.replace('N', '2'),
    '',
  ])
})

test('warns about unknown keys in every section and suggests the right name', async () => {
  const misspelt = join(folder.path, 'more', 'misspelt')
  const lines = [
    'schema_version = "1.4"',
    'bogus = 1',
    '[agent]',
    'timeout_sec = 60',
    'timeout = 3',
    '[verifer]',
    'a = 1',
  ]
  await writeFiles(misspelt, { ...SMALL_TASK, 'task.toml': `${lines.join('\n')}\n` })
  const { code, out } = await assay(['check', misspelt, '--json'])
  const [{ findings }] = JSON.parse(out).tasks
  expect(code).toBe(0)
  expect(findings).toEqual(
    [
      ['agent.timeout', 'Did you mean timeout_sec?'],
      ['bogus', 'Check the spelling.'],
      ['verifer', 'Did you mean verifier?'],
    ].map(([path, advice]) => ({
      rule: 'unknown_keys',
      severity: 'warn',
      path,
      detail: `Unknown key, which Harbor ignores. ${advice}`,
    })),
  )
})

test('images of private registries are refused unless ASSAY_BUILD_HOSTS lists their host', async () => {
  const internal = join(folder.path, 'more', 'internal')
  await writeFiles(internal, {
    ...SMALL_TASK,
    ...TIMED,
    'environment/Dockerfile': 'FROM registry.internal.example:5000/base\nFROM 10.1.2.3/base\n',
  })
  const checkWith = (hosts: string) => assay(['check', internal], { env: { ASSAY_BUILD_HOSTS: hosts } })
  expect(await checkWith('')).toMatchObject({ code: 1, out: expect.stringContaining('private_registries') })
  expect(await checkWith('10.9.9.9')).toMatchObject({ code: 1, out: expect.stringContaining('private_registries') })
  expect(await checkWith('10.0.0.0/8')).toMatchObject({ code: 0 })
  expect(await checkWith('http://10.1.2.3/')).toMatchObject({
    code: 2,
    err: expect.stringContaining('ASSAY_BUILD_HOSTS'),
  })
})

test('--json prints every finding and has the same exit code', async () => {
  const { code, out } = await assay(['check', tasks, '--json'])
  expect(code).toBe(1)
  expect(JSON.parse(out)).toEqual({
    rules: RULES_VERSION,
    tasks: [
      {
        task: 'bad',
        findings: [
          {
            rule: 'compose_privileged',
            severity: 'block',
            path: PLACE,
            detail: 'The service would have root privileges on the host.',
          },
          expect.objectContaining({ rule: 'timeout_missing', severity: 'warn' }),
        ],
        strength: STANDARD,
      },
      { task: 'good', findings: [], strength: STANDARD },
    ],
  })
})

test('fails for a missing folder and for one without a task', async () => {
  expect(await assay(['check', join(folder.path, 'nowhere')])).toEqual({
    code: 1,
    out: '',
    err: `error: ${join(folder.path, 'nowhere')} does not exist.\n`,
  })
  const file = join(tasks, 'good', 'task.toml')
  expect((await assay(['check', file])).err).toBe(
    `error: ${file} is a file. Name the folder of a task, or one with tasks in it.\n`,
  )
  const empty = await assay(['check', folder.path])
  expect(empty.code).toBe(1)
  expect(empty.out).toMatch(/block +required_files +task\.toml/)
})
