import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { IMAGE, openTrialRunner, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness, nop, oracle } from '../harnesses/reference.ts'

let runner: Awaited<ReturnType<typeof openTrialRunner>>
beforeAll(async () => {
  runner = await openTrialRunner('bwrap')
}, 600_000)
afterAll(async () => runner[Symbol.asyncDispose]())

const check = (command: string, retries = 2) =>
  `[environment.healthcheck]\ncommand = ${JSON.stringify(command)}\ninterval_sec = 0.1\nretries = ${retries}\n`

const SERVICE = `#!/bin/bash
# Does what it was given, and answers questions besides.
mkfifo /run/question /run/answer
while read -r word < /run/question; do echo "$GREETING $word" > /run/answer; done &
exec "$@"
`

/** The tests call the service too, so it must also run in the fresh sandbox. */
const withEntrypoint = () =>
  writeTask(join(runner.folder, 'entrypoint'), {
    'task.toml': taskToml(
      { agentSec: 3, end: `[environment.env]\nGREETING = "hello"\n${check('test -p /run/answer', 50)}` },
      null,
    ),
    'environment/Dockerfile': `FROM ${IMAGE}\nCOPY service.sh /service.sh\nRUN chmod 755 /service.sh\nENTRYPOINT ["/service.sh"]\n`,
    'environment/service.sh': SERVICE,
    'solution/solve.sh': '#!/bin/bash\necho world > /run/question\ncat /run/answer > /app/hello.txt\n',
    'tests/test.sh': `#!/bin/bash
echo again > /run/question
[ "$(cat /run/answer)" = "hello again" ] && [ "$(cat /app/hello.txt)" = "hello world" ]
echo $((1 - $?)) > /logs/verifier/reward.txt
`,
  })

test('the entrypoint of the image runs beside the agent and beside the tests', async () => {
  const task = withEntrypoint()
  expect(await runner.run(task, oracle)).toMatchObject({ state: 'passed', class: 'verified' })
  expect(await runner.run(task, nop)).toMatchObject({ state: 'failed', class: 'verified', reward: 0 })
})

test('an agent in a running environment has its time limit, user, input and exit code', async () => {
  const task = withEntrypoint()
  const slow = await runner.run(task, createCommandHarness('sleep 600'), 'workspace')
  expect(slow).toMatchObject({ state: 'failed', class: 'agent_timeout', limit: 'seconds' })
  const said = await runner.run(task, createCommandHarness('cat; id -un; exit 3'))
  expect(said).toMatchObject({ class: 'agent_exit', steps: [{ agent: { code: 3 } }] })
  expect(runner.output('agent-1.log')).toBe('Write the word hello to /app/hello.txt.\nroot\n')
}, 60_000)

test.each([
  ['never', 'exit 1', /did not become healthy: its healthcheck failed 2 times/],
  ['hangs', 'sleep 600', /did not become healthy/],
])('an environment that is healthy %s is an error and never a zero', async (name, command, error) => {
  const toml = taskToml({ end: `${check(command)}timeout_sec = 0.5\n` })
  const record = await runner.run(writeTask(join(runner.folder, `health-${name}`), { 'task.toml': toml }), oracle)
  expect(record).toMatchObject({ state: 'errored', class: 'sandbox_error', reward: null })
  expect(record.error).toMatch(error)
})

test('an environment whose command ends at once is an error', async () => {
  const task = writeTask(join(runner.folder, 'ends'), {
    'task.toml': taskToml({ end: check('exit 1', 100) }, null),
    'environment/Dockerfile': `FROM ${IMAGE}\nENTRYPOINT ["/bin/false"]\n`,
  })
  const record = await runner.run(task, oracle)
  expect(record).toMatchObject({ state: 'errored', class: 'sandbox_error' })
  expect(record.error).toMatch(/ended \(code 1\) before it became healthy/)
})

const steps = (more: string) => taskToml({ end: `[[steps]]\nname = "one"\n${more}` }, null)

const stepFiles = (setup: string) => ({
  'environment/Dockerfile': `FROM ${IMAGE}\nRUN useradd --create-home dev && mkdir /app && chown dev /app\n`,
  'steps/one/instruction.md': 'Go on.\n',
  'steps/one/workdir/setup.sh': setup,
  'steps/one/workdir/deep/data.txt': 'hel',
  'steps/one/solution/solve.sh': '#!/bin/bash\ncat deep/data.txt tail > hello.txt\necho x > deep/data.txt\n',
})

test('a step gets its files and its setup, as the user of the agent', async () => {
  const setup = '#!/bin/bash\n[ "$(id -un) $PWD" = "dev /app" ] && echo lo > tail\n'
  const files = { ...stepFiles(setup), 'task.toml': steps('[steps.agent]\nuser = "dev"\n') }
  expect(await runner.run(writeTask(join(runner.folder, 'setup'), files), oracle)).toMatchObject({ state: 'passed' })
})

test('a setup that fails and a step that never becomes healthy are errors', async () => {
  const broken = writeTask(join(runner.folder, 'broken'), { ...stepFiles('exit 9\n'), 'task.toml': steps('') })
  expect(await runner.run(broken, oracle)).toMatchObject({
    state: 'errored',
    class: 'sandbox_error',
    error: 'The setup.sh of the step failed: code 9.',
  })
  const check = '[steps.healthcheck]\ncommand = "false"\ninterval_sec = 0\nretries = 2\n'
  const files = { ...stepFiles('true\n'), 'task.toml': steps(check) }
  const sick = await runner.run(writeTask(join(runner.folder, 'sick'), files), nop)
  expect(sick).toMatchObject({ state: 'errored', error: expect.stringMatching(/the step did not become healthy/) })
})

test('a failed build reports its last lines, and its output is streamed', async () => {
  const task = writeTask(join(runner.folder, 'build'), {
    'task.toml': taskToml({}, null),
    'environment/Dockerfile': `FROM ${IMAGE}\nRUN echo first-words && echo last-words >&2 && exit 7\n`,
  })
  const lines: string[] = []
  const record = await runner.run(task, oracle, 'workspace', { onLog: (line) => lines.push(line) })
  expect(record).toMatchObject({ state: 'errored', class: 'sandbox_error', error: expect.stringMatching(/last-words/) })
  expect(lines).toContain('first-words')
})

test('MCP servers and skills of the task are passed to the harness', async () => {
  const server = '[[environment.mcp_servers]]\nname = "library"\ntransport = "http"\nurl = "http://127.0.0.1:9/mcp"\n'
  const end = `${server}[environment.mcp_servers.headers]\nAuthorization = "\${TOKEN}"\n`
  const toml = taskToml({ environment: 'skills_dir = "/opt/skills"', end })
  const kits: unknown[] = []
  const harness = { ...createCommandHarness('true'), plan: (_: unknown, kit: unknown) => void kits.push(kit) }
  const task = writeTask(join(runner.folder, 'tools'), { 'task.toml': toml })
  await runner.run(task, harness, 'workspace', { variables: { TOKEN: 'secret' } })
  // The harness plans twice: as a check before anything is installed, and for the run.
  expect(new Set(kits.map((kit) => JSON.stringify(kit))).size).toBe(1)
  expect(kits[0]).toEqual({
    solutionEnv: [],
    skillsDir: '/opt/skills',
    mcpServers: [
      {
        name: 'library',
        transport: 'streamable-http',
        url: 'http://127.0.0.1:9/mcp',
        headers: { Authorization: 'secret' },
      },
    ],
  })
})
