import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { inSandboxes } from '../../test/support/trials/in-sandboxes.ts'
import { IMAGE, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { openFolderSource } from '../harbor/folder-source.ts'
import { readTask } from '../harbor/read-task.ts'
import { createCommandHarness, nop, oracle } from '../harnesses/reference.ts'
import { listModes, requireSupported } from './task-support.ts'

const GRADED = new URL('../../samples/tasks/sum-behind-a-wall', import.meta.url).pathname

const module = (begin: string) =>
  `cat > /app/Sum.pm <<'PERL'\npackage Sum;\nBEGIN { ${begin} }\nsub total { my $sum = 1; $sum }\n1;\nPERL`

inSandboxes(({ runner, share, isFull }) => {
  test('grader: the reference solution passes and a no-op does not', async () => {
    expect(await runner.run(GRADED, oracle, 'grader')).toMatchObject({ state: 'passed', verifyMode: 'grader' })
    expect(await runner.run(GRADED, nop, 'grader')).toMatchObject({ state: 'failed', reward: 0 })
  })

  test.runIf(isFull)(
    'grader: a daemon that the tests start by themselves never wins the race for the reward',
    async () => {
      const spin = 'unless (fork) { 1 while !open(my $f, ">", "/logs/verifier/reward.txt") || !print $f "1\\n" }'
      for (let round = 0; round < 20; round += 1) {
        expect(await runner.run(GRADED, createCommandHarness(module(spin)), 'grader')).toMatchObject({
          state: 'failed',
          reward: 0,
        })
      }
    },
    120_000,
  )

  test.each(
    share([
      ['ends the program with success', 'exit 0'],
      ['kills its parent', 'kill 9, getppid; kill 9, -1'],
      ['reads the cases', 'open my $f, "<", "/tests/cases.txt" or exit 0; print <$f>; exit 0'],
      ['prints success', 'print "0"; close STDOUT'],
      ['replaces the tests', 'unlink "/tests/cases.txt"; rename "/tests", "/gone"'],
    ]),
  )('grader: a candidate that %s does not win', async (_, begin) => {
    expect(await runner.run(GRADED, createCommandHarness(module(begin)), 'grader')).toMatchObject({
      state: 'failed',
      reward: 0,
    })
  })

  test('grader: a program of the submission whose current directory is a folder of the tests cannot read it', async () => {
    const task = writeTask(join(runner.folder, 'inner'), {
      'task.toml': taskToml({ end: '[metadata.assay]\ngrader = true' }),
      'solution/solve.sh': `#!/bin/bash\nprintf '#!/bin/bash\\ntr a-z A-Z < /dev/stdin\\n' > /app/run && chmod 755 /app/run\n`,
      'tests/cases/in.txt': 'hello\n',
      'tests/cases/out.txt': 'HELLO\n',
      'tests/test.sh': `#!/bin/bash
cd /tests/cases && setpriv --reuid=65534 --clear-groups -- /app/run < in.txt > /tmp/said
cmp -s /tmp/said out.txt; echo $((1 - $?)) > /logs/verifier/reward.txt
`,
    })
    expect(await runner.run(task, oracle, 'grader')).toMatchObject({ state: 'passed' })
    const reader = createCommandHarness("printf '#!/bin/bash\\ncat out.txt\\n' > /app/run; chmod 755 /app/run")
    expect(await runner.run(task, reader, 'grader')).toMatchObject({ state: 'failed', reward: 0 })
  })

  test('mode grader requires the promise of the task', async () => {
    const plain = writeTask(join(runner.folder, 'plain'))
    const read = async (folder: string) => listModes((await readTask(await openFolderSource(folder))).task)
    expect(await read(plain)).toEqual(['workspace', 'snapshot', 'shared-cold', 'shared-live'])
    expect(await read(GRADED)).toEqual(['grader', 'workspace', 'snapshot', 'shared-cold', 'shared-live'])
    expect(await runner.run(plain, oracle, 'grader')).toMatchObject({ state: 'errored', class: 'operator_error' })
  })

  /** A task whose work is a process, which does not exist in a fresh sandbox. */
  const SERVER = {
    'solution/solve.sh': `#!/bin/bash
mkfifo /tmp/door
setsid bash -c 'while :; do echo hello > /tmp/door; done' > /dev/null 2>&1 &
`,
    'tests/test.sh': `#!/bin/bash
[ -p /tmp/door ] && read -r -t 5 word <> /tmp/door && [ "$word" = hello ]; echo $((1 - $?)) > /logs/verifier/reward.txt
`,
  }

  test('only in mode shared-live do the tests see processes that the agent left running', async () => {
    const task = writeTask(join(runner.folder, 'server'), SERVER)
    expect(await runner.run(task, oracle, 'shared-cold')).toMatchObject({ state: 'failed' })
    expect(await runner.run(task, oracle, 'shared-live')).toMatchObject({ state: 'passed', verifyMode: 'shared-live' })
    expect(await runner.run(task, nop, 'shared-live')).toMatchObject({ state: 'failed', reward: 0 })
  }, 60_000)

  test.each(
    share([
      ['a reward that lies ready', 'mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt', 'failed'],
      ['planted tests', 'mkdir -p /tests; echo "echo 1 > /logs/verifier/reward.txt" > /tests/test.sh', 'failed'],
      ['tests that are a link', 'mkdir -p /app/t; ln -s /app/t /tests', 'failed'],
      [
        'a log folder that is a link',
        'mkdir -p /app/l; rm -rf /logs; mkdir /logs; ln -s /app/l /logs/verifier',
        'failed',
      ],
      ['no tar', 'rm /bin/tar /usr/bin/tar', 'failed'],
    ] as const),
  )('shared-live: %s does not win', async (_, work, state) => {
    const record = await runner.run(writeTask(join(runner.folder, 'lax')), createCommandHarness(work), 'shared-live')
    expect(record).toMatchObject({ state })
  })

  test.each(
    share([
      ['a link', 'ln -s /etc/hostname /logs/verifier/reward.txt'],
      ['a pipe', 'mkfifo /logs/verifier/reward.txt'],
      ['a folder of its own elsewhere', 'rm -rf /logs/verifier; ln -s /app /logs/verifier; echo 1 > /app/reward.txt'],
    ]),
  )('shared-live: a reward that is %s is refused', async (name, script) => {
    const task = writeTask(join(runner.folder, `live ${name}`), { 'tests/test.sh': `#!/bin/sh\n${script}\n` })
    expect(await runner.run(task, oracle, 'shared-live')).toMatchObject({ state: 'errored', class: 'verifier_error' })
  })
})

const COMPOSE = `services:
  main:
    volumes: [MAIN]
  db:
    image: ${IMAGE}
    volumes: ["own:/srv/own", "data:/srv/data"]
  cache:
    image: ${IMAGE}
    volumes: [CACHE]
volumes: { own: {}, data: {}, other: {} }
`

test.each([
  ['', '', []],
  ['other:/srv', '', ['other']],
  ['', 'data:/srv', ['data']],
  ['data:/srv', 'data:/srv', ['data']],
])(
  'volumes of main (%j) and of two services (%j) are refused by name where none can be shared',
  async (main, cache, names) => {
    const compose = COMPOSE.replace('MAIN', JSON.stringify(main))
      .replace('CACHE', JSON.stringify(cache))
      .replaceAll('[""]', '[]')
    const folder = mkdtempSync(join(tmpdir(), 'assay-volumes-'))
    const { task } = await readTask(
      await openFolderSource(writeTask(folder, { 'environment/docker-compose.yaml': compose })),
    )
    rmSync(folder, { recursive: true })
    const limits = { cpus: true, memory: true, pids: true, disk: 'hard' } as const
    const capabilities = { isolation: 'test', gatewayChannel: 'relay', limits, networks: true } as const
    expect(() => requireSupported(task, { ...capabilities, volumes: true })).not.toThrow()
    const message = names.map((name) => `a shared volume in this sandbox (volumes.${name})`).join('; ')
    const require = () => requireSupported(task, { ...capabilities, volumes: false })
    if (message === '') expect(require).not.toThrow()
    else expect(require).toThrow(`This engine does not support: ${message}.`)
  },
)
