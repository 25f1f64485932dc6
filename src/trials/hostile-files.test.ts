import { join } from 'node:path'
import { expect, test } from 'vitest'
import { inSandboxes } from '../../test/support/trials/in-sandboxes.ts'
import { taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness } from '../harnesses/reference.ts'
import type { VerifyMode } from './record.ts'

const DONE = 'echo hello > /app/hello.txt'
const PIPES = 'cd /etc; for f in passwd group shadow nsswitch.conf; do rm -f $f; mkfifo $f; done'
const QUICK = taskToml().replace('[verifier]\ntimeout_sec = 20', '[verifier]\ntimeout_sec = 3')
const TWO_STEPS = {
  'task.toml': taskToml({ end: '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n' }),
  'steps/one/instruction.md': 'Begin.\n',
  'steps/two/instruction.md': 'Go on.\n',
}

type Attack = {
  what: string
  line: string
  mode: VerifyMode
  files?: Record<string, string>
  /** `any`: sandboxes differ in the files that can be carried over. */
  state: 'passed' | 'failed' | 'any'
}

/** Files that would block or mislead a process that opens them as root when the next sandbox starts. */
const ATTACKS: Attack[] = [
  { what: 'account files are pipes', line: `${DONE}; ${PIPES}`, mode: 'snapshot', state: 'passed' },
  { what: 'account files are pipes', line: `${DONE}; ${PIPES}`, mode: 'shared-cold', state: 'passed' },
  { what: 'account files are pipes', line: `${DONE}; ${PIPES}`, mode: 'shared-live', state: 'any' },
  {
    what: 'account files are pipes when the next step begins',
    line: `${DONE}; ${PIPES}`,
    mode: 'snapshot',
    files: TWO_STEPS,
    state: 'passed',
  },
  ...(['nobody', '65534'] as const).flatMap((user): Attack[] =>
    (['shared-live', 'shared-cold'] as const).map((mode) => ({
      what: `account files are pipes and the tests run as ${user}`,
      line: `${DONE}; ${PIPES}; chmod 666 /app/hello.txt`,
      mode,
      files: { 'task.toml': QUICK.replace('timeout_sec = 3', `timeout_sec = 3\nuser = "${user}"`) },
      state: 'any',
    })),
  ),
  {
    what: '/etc is a link',
    line: `${DONE}; mv /etc /srv/etc; rm -rf /etc; ln -s /srv/etc /etc; mkfifo /srv/pipe; ln -sf /srv/pipe /srv/etc/passwd`,
    mode: 'shared-cold',
    state: 'passed',
  },
  {
    what: 'an account file has a thousand gigabytes of nothing',
    line: `${DONE}; truncate -s 1000G /etc/passwd`,
    mode: 'shared-cold',
    state: 'passed',
  },
  { what: 'the working folder is a pipe', line: 'cd /; rm -rf /app; mkfifo /app', mode: 'workspace', state: 'failed' },
  {
    what: 'the working folder is a pipe',
    line: 'cd /; rm -rf /app; mkfifo /app',
    mode: 'shared-cold',
    state: 'failed',
  },
  {
    what: '/tests and /logs are pipes',
    line: `${DONE}; rm -rf /tests /logs; mkfifo /tests /logs`,
    mode: 'shared-cold',
    state: 'passed',
  },
  {
    what: 'the shell of the tests is a pipe',
    line: `${DONE}; rm /bin/bash; mkfifo /bin/bash`,
    mode: 'shared-cold',
    state: 'any',
  },
]

inSandboxes(({ runner, share }) => {
  test.each(share(ATTACKS))(
    'files of an agent do not prevent later sandboxes, and its trial is scored: $what ($mode)',
    async ({ what, line, mode, files = { 'task.toml': QUICK }, state }) => {
      const task = writeTask(join(runner.folder, `${what} ${mode}`.replaceAll('/', '')), files)
      const record = await runner.run(task, createCommandHarness(line), mode)
      expect(record.error).toBe(null)
      expect(state === 'any' ? ['passed', 'failed'] : [state]).toContain(record.state)
    },
    120_000,
  )
})
