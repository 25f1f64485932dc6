import { join } from 'node:path'
import { expect, test } from 'vitest'
import { inSandboxes } from '../../test/support/trials/in-sandboxes.ts'
import { IMAGE, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness } from '../harnesses/reference.ts'
import type { TrialRecord, VerifyMode } from './record.ts'

/** Files or processes with which an agent could try to have its failed trial excluded. The trial must be scored. */
type FailureCase = {
  what: string
  line: string
  files?: Record<string, string>
  modes?: VerifyMode[]
  /** `any`: sandboxes differ in how much of the work can be used. */
  state?: 'passed' | 'failed' | 'any'
}

const quick = (more: Parameters<typeof taskToml>[0] = {}, image: string | null = IMAGE) =>
  taskToml(more, image).replace('[verifier]\ntimeout_sec = 20', '[verifier]\ntimeout_sec = 2')

const steps = (more = '', end = '') => ({
  'task.toml': quick({ end: `${end}[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n${more}` }),
  'steps/one/instruction.md': 'Begin.\n',
  'steps/one/solution/solve.sh': '#!/bin/bash\necho hello > /app/hello.txt\n',
  'steps/two/instruction.md': 'Go on.\n',
  'steps/two/solution/solve.sh': '#!/bin/bash\ntrue\n',
})
const withSetup = { ...steps(), 'steps/two/workdir/setup.sh': '#!/bin/bash\ntrue\n' }
const check = (kind: string, command: string) =>
  `[${kind}.healthcheck]\ncommand = "${command}"\ninterval_sec = 0\nretries = 2\n`
const hook = (command: string) => `[[verifier.collect]]\ncommand = "${command}"\ntimeout_sec = 1\n`

const ALL: VerifyMode[] = ['workspace', 'snapshot', 'shared-cold', 'shared-live']
const COLD: VerifyMode[] = ['snapshot', 'shared-cold']
const DEEP = `d=${'0123456789'.repeat(10)}; for i in $(seq 60); do mkdir $d && cd $d || break; done`

const STEPS: FailureCase[] = [
  { what: 'no shell for the setup of the next step', line: 'rm -f /bin/bash /usr/bin/bash', files: withSetup },
  {
    what: 'the next step never becomes healthy',
    line: 'touch /srv/sick',
    files: steps(check('steps', 'test ! -e /srv/sick')),
  },
  {
    what: 'the environment never becomes healthy again',
    line: 'touch /srv/sick',
    files: steps('', check('environment', 'test ! -e /srv/sick')),
    modes: ['workspace', 'snapshot'],
  },
  {
    what: 'the working folder is a link when the next step brings files',
    line: 'rm -rf /app; ln -s /srv /app',
    files: withSetup,
    modes: ['workspace', 'snapshot'],
  },
  { what: 'the working folder is a file when the next step begins', line: 'rm -rf /app; echo > /app', files: steps() },
]

const SEPARATE = {
  'task.toml': quick({ top: 'artifacts = ["/app/out", "hello.txt"]', verifier: 'environment_mode = "separate"' }),
  'tests/Dockerfile': `FROM ${IMAGE}\nRUN mkdir -p /app/out\nCOPY test.sh /tests/test.sh\nRUN chmod +x /tests/test.sh\n`,
  'solution/solve.sh': '#!/bin/bash\nmkdir /app/out; echo hello > /app/hello.txt\n',
}

const WORKDIRS: FailureCase[] = [
  {
    what: "an artifact clashes with the verifier's image",
    line: 'echo 1 > /app/out; echo hello > hello.txt',
    files: SEPARATE,
    modes: ['workspace'],
    state: 'passed',
  },
  { what: 'the working folder is a link', line: 'rm -rf /app; ln -s /srv /app', modes: ALL },
  { what: 'the working folder is a file', line: 'rm -rf /app; echo > /app', modes: ALL },
  { what: 'there is no working folder', line: 'rm -rf /app', modes: ALL },
  ...['/tests', '/logs', '/solution', '/sys', '/tmp', '/srv'].map((path) => ({
    ...{ what: `${path} is a link`, line: `rm -rf ${path}; ln -s /app ${path}; echo hello > hello.txt`, modes: COLD },
    state: 'passed' as const,
  })),
  {
    what: 'the user of the tests was removed',
    line: 'sed -i /dev:/d /etc/passwd; echo hello > hello.txt',
    files: {
      'task.toml': quick({ verifier: 'user = "dev"' }, null),
      'environment/Dockerfile': `FROM ${IMAGE}\nRUN useradd --create-home dev\n`,
    },
    modes: [...COLD, 'shared-live'],
    state: 'passed',
  },
]

const LEFTOVERS: FailureCase[] = [
  {
    what: 'a path too deep for any program',
    line: `echo hello > hello.txt; ${DEEP}`,
    modes: ['workspace', 'snapshot'],
    state: 'any',
  },
  {
    what: 'names that no archive can contain',
    line: `echo hello > hello.txt; touch "$(printf 'new\\nline')" "$(printf '\\377\\376')" 'back\\slash' ' ' '-rf'`,
    modes: ['workspace', 'snapshot'],
    state: 'passed',
  },
  {
    what: 'pipes, sockets and links that lead out',
    line: `echo hello > hello.txt; mkfifo pipe; ln -s / root; ln -s self self; perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "/app/door", Listen => 1)'`,
    modes: ['workspace', 'snapshot'],
    state: 'passed',
  },
  {
    what: 'a file of a thousand gigabytes without content',
    line: 'echo hello > hello.txt; truncate -s 1000G zeros; mkdir -p /logs/artifacts; cp --sparse=always zeros /logs/artifacts/',
    modes: ['workspace', 'snapshot'],
    state: 'any',
  },
  {
    what: 'very many files',
    line: `echo hello > hello.txt; mkdir -p /logs/artifacts; perl -e 'for (1 .. 3000) { open my $f, ">", "/logs/artifacts/$_"; symlink "/etc", "/app/link$_" }'`,
    state: 'passed',
  },
  {
    what: 'a folder without permissions',
    line: 'echo hello > hello.txt; mkdir shut; touch shut/x; chmod 0 shut hello.txt',
    modes: ALL,
    state: 'passed',
  },
  {
    what: 'hooks that never end, and have no shell',
    line: 'mkfifo /srv/pipe; rm /bin/sh /usr/bin/sh; rm -f /bin/bash /usr/bin/bash',
    files: { 'task.toml': quick({ end: hook('cat /srv/pipe') + hook('touch /srv/x') }) },
  },
]

const SIDECAR = {
  'task.toml': quick({}, null),
  'environment/Dockerfile': `FROM ${IMAGE}\n`,
  'environment/docker-compose.yaml': `services:
  main:
    volumes: ["shared:/srv/shared"]
    healthcheck: { test: "test ! -e /srv/shared/stop", interval: 0.1s, retries: 2 }
  server:
    image: ${IMAGE}
    command: ["sh", "-c", "until [ -e /srv/shared/stop ]; do sleep 0.1; done; exit 3"]
    volumes: ["shared:/srv/shared"]
volumes:
  shared:
`,
}

const NO_VERDICT: FailureCase[] = [
  { what: 'the tests wait endlessly for the answer', line: 'mkfifo hello.txt', modes: [...COLD, 'shared-live'] },
  {
    what: 'the tests run a program that never ends',
    line: 'printf "#!/bin/sh\\nsleep 60" > run; chmod +x run',
    files: {
      'task.toml': quick(),
      'tests/test.sh': '#!/bin/bash\n[ "$(./run)" = hello ]; echo $((1 - $?)) > /logs/verifier/reward.txt\n',
      'solution/solve.sh': '#!/bin/bash\nprintf "#!/bin/sh\\necho hello" > run; chmod +x run\n',
    },
  },
  {
    what: 'the tests run a program that removes their reward',
    line: 'printf "#!/bin/sh\\nrm -rf /logs/verifier/*; kill -9 $PPID" > run; chmod +x run',
    files: {
      'tests/test.sh': '#!/bin/bash\n./run | grep -q hello; echo $((1 - $?)) > /logs/verifier/reward.txt\n./run\n',
      'solution/solve.sh': '#!/bin/bash\nprintf "#!/bin/sh\\necho hello" > run; chmod +x run\n',
    },
  },
  { what: 'no shell for the tests', line: 'rm -f /bin/bash /usr/bin/bash', modes: ['shared-cold', 'shared-live'] },
  { what: 'a sidecar has ended', line: 'touch /srv/shared/stop', files: SIDECAR },
]

const LIVE: FailureCase[] = [
  { what: 'no tar to upload the tests with', line: 'rm /bin/tar /usr/bin/tar' },
  { what: 'no shell to upload the tests with', line: 'rm /bin/sh /usr/bin/sh' },
  { what: 'everything is killed', line: 'kill -9 -1' },
  {
    what: 'every process is taken',
    line: `perl -e 'for (1 .. 600) { last unless defined(my $p = fork()); if (!$p) { sleep 60; exit } }'`,
  },
].map((failure) => ({ ...failure, modes: ['shared-live' as const] }))

const CASES = [...STEPS, ...WORKDIRS, ...LEFTOVERS, ...NO_VERDICT, ...LIVE]

/** Returns each case in all its modes, or only in the first. */
const expandModes = (cases: FailureCase[], inAll: boolean) =>
  cases.flatMap(({ modes = ['workspace'], ...failure }) =>
    (inAll ? modes : modes.slice(0, 1)).map((mode) => ({ ...failure, mode })),
  )

const expectedState = (record: TrialRecord, state: FailureCase['state'] = 'failed'): string => {
  if (state !== 'any') return state
  return record.reward === 1 ? 'passed' : 'failed'
}

inSandboxes(({ runner, sandbox, share, isFull }) => {
  test.each(expandModes(share(CASES), isFull))(
    'an agent cannot have its trial excluded: $what ($mode)',
    async ({ what, line, files = { 'task.toml': quick() }, mode, state }) => {
      const task = writeTask(join(runner.folder, what.replaceAll('/', '')), files)
      const record = await runner.run(task, createCommandHarness(line), mode)
      expect({ state: record.state, error: record.error }).toEqual({ state: expectedState(record, state), error: null })
      expect(record.reward, JSON.stringify(record.steps)).toBeGreaterThanOrEqual(0)
    },
    60_000,
  )

  test('files that prevent the sandbox are noted, and the rest is verified', async () => {
    const clash = createCommandHarness('echo > out; echo hello > hello.txt')
    const apart = await runner.run(writeTask(join(runner.folder, 'told'), SEPARATE), clash)
    // A Docker engine replaces the folder with the file, so nothing fails.
    const notes = sandbox === 'docker' ? [] : [expect.stringMatching(/Artifacts .* not judged.*app\/out/)]
    expect(apart).toMatchObject({ state: 'passed', steps: [{ notes }] })
    const link = createCommandHarness('rm -rf /app; ln -s /srv /app')
    const steps = await runner.run(writeTask(join(runner.folder, 'told steps'), withSetup), link)
    expect(steps.steps[1]).toMatchObject({
      agent: null,
      reward: 0,
      notes: [expect.stringMatching(/could not start .*link/)],
    })
  })

  test.each([
    ['a setup that always fails', { ...withSetup, 'steps/two/workdir/setup.sh': 'exit 9\n' }, 'sandbox_error'],
    ['tests that leave no reward', { 'tests/test.sh': '#!/bin/sh\n' }, 'verifier_error'],
    ['an environment that is never healthy', steps('', check('environment', 'false')), 'sandbox_error'],
  ])('a failure that also happens without the agent is not scored: %s', async (name, files, kind) => {
    const task = writeTask(join(runner.folder, `not counted ${name}`), files)
    expect(await runner.run(task, createCommandHarness('true'))).toMatchObject({
      state: 'errored',
      class: kind,
      reward: null,
    })
  })
})
