import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ANSWER_TASK, writeAttackedTasks } from '../../test/support/trials/attacked-tasks.ts'
import { IMAGE, openTrialRunner, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { openFolderSource } from '../harbor/folder-source.ts'
import { readTask } from '../harbor/read-task.ts'
import { SandboxUnavailable } from '../sandboxes/sandbox.ts'
import { calibrate, chooseMode } from './calibrate.ts'
import { findStaticWeakness, rateStrength } from './verifier-strength.ts'

let runner: Awaited<ReturnType<typeof openTrialRunner>>
beforeAll(async () => {
  runner = await openTrialRunner('bwrap')
}, 600_000)
afterAll(async () => runner[Symbol.asyncDispose]())

const requestFor = (name: string, files: Record<string, string> = {}) =>
  requestIn(writeTask(join(runner.folder, name), files))

async function requestIn(folder: string) {
  const { task, digest } = await readTask(await openFolderSource(folder))
  const signal = new AbortController().signal
  return { task, digest, folder, variables: {}, signal, onPhase: () => {}, outputFolder: runner.folder }
}

const outcomes = (cheats: { id: string; outcome: string }[], outcome: string): string[] =>
  cheats.filter((cheat) => cheat.outcome === outcome).map(({ id }) => id)

test('calibration chooses the strictest mode in which the solution passes', async () => {
  const found = async (name: string, files: Record<string, string>) =>
    chooseMode(runner.provider, await requestFor(name, files))
  expect(await found('strict', {})).toMatchObject({ kind: 'fit', mode: 'workspace', verifierNetwork: 'declared' })
  const outside = {
    'solution/solve.sh': '#!/bin/sh\necho hello > /srv/hello.txt\n',
    'tests/test.sh':
      '#!/bin/sh\nif grep -q hello /srv/hello.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n',
  }
  expect(await found('outside', outside)).toMatchObject({
    kind: 'fit',
    mode: 'snapshot',
    carried: ['/srv/hello.txt'],
  })
  const free = { 'tests/test.sh': '#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n' }
  expect(await found('free', free)).toMatchObject({ kind: 'unfit', reason: 'A no-op passes its tests.' })
  const wrong = { 'solution/solve.sh': '#!/bin/sh\ntrue\n' }
  expect(await found('wrong', wrong)).toMatchObject({
    kind: 'unfit',
    reason: 'The reference solution does not pass: its reward is 0.',
  })
})

test('a task whose tests only read files withstands every cheat', async () => {
  const calibration = await calibrate(runner.provider, await requestFor('hello'))
  expect(calibration).toMatchObject({
    kind: 'fit',
    mode: 'workspace',
    strength: 'standard',
    weakness: null,
    winners: [],
  })
  if (calibration.kind === 'unfit') throw new Error(calibration.reason)
  expect(outcomes(calibration.cheats, 'errored')).toEqual([])
  expect(outcomes(calibration.cheats, 'lost')).toEqual(
    expect.arrayContaining(['preseed', 'linked-folders', 'background', 'shadow-programs', 'replaced-programs']),
  )
  expect(JSON.parse(JSON.stringify(calibration))).toEqual(calibration)
})

test('a cheat that does not apply is not verified, and every other cheat is', async () => {
  const verified = new Set<string>()
  let trial = ''
  const calibration = await calibrate(runner.provider, {
    ...(await requestFor('unverified')),
    onTrial: (purpose) => {
      trial = purpose
    },
    onPhase: (phase) => phase === 'verify' && verified.add(trial),
  })
  if (calibration.kind === 'unfit') throw new Error(calibration.reason)
  expect(outcomes(calibration.cheats, 'does_not_apply')).toContain('makefile')
  for (const { id, outcome } of calibration.cheats)
    expect({ id, isVerified: verified.has(`cheat ${id}`) }).toEqual({ id, isVerified: outcome !== 'does_not_apply' })
})

test('a task whose tests accept an empty answer is weak', async () => {
  const careless = {
    'instruction.md': 'Write `ok` to every line of answer.txt.\n',
    'solution/solve.sh': '#!/bin/sh\nprintf "ok\\nok\\n" > answer.txt\n',
    'tests/test.sh': `#!/bin/sh
reward=1
[ -f answer.txt ] || reward=0
while read -r line; do [ "$line" = ok ] || reward=0; done < answer.txt
echo "$reward" > /logs/verifier/reward.txt
`,
  }
  const calibration = await calibrate(runner.provider, await requestFor('careless', careless))
  expect(calibration).toMatchObject({
    kind: 'fit',
    strength: 'weak',
    winners: expect.arrayContaining(['empty-answers']),
  })
})

test('a task whose tests accept answers without rows, or answers to changed inputs, is weak', async () => {
  const files = {
    'environment/in.csv': 'n\n3\n4\n',
    'solution/solve.sh': '#!/bin/sh\ngrep -v 4 in.csv > out.csv\n',
    'tests/test.sh': `#!/bin/sh
reward=1
[ "$(head -n 1 out.csv)" = n ] || reward=0
while read -r line; do grep -qxF "$line" in.csv || reward=0; done < out.csv
echo "$reward" > /logs/verifier/reward.txt
`,
  }
  const calibration = await calibrate(runner.provider, await requestFor('rows', files))
  const winners = expect.arrayContaining(['hollow-answers', 'changed-inputs'])
  expect(calibration).toMatchObject({ kind: 'fit', strength: 'weak', winners })
}, 300_000)

test('a task whose tests search an answer, or accept a part of it, is weak', async () => {
  const files = {
    'environment/users.txt': 'ada 3\nbob 5\neve 5\nfay 1\n',
    'instruction.md': 'Write the names with a 5 to names.txt, one in a line.\n',
    'solution/solve.sh': '#!/bin/sh\ngrep 5 users.txt | cut -d" " -f1 > names.txt\necho fin >> names.txt\n',
  }
  const search = `#!/bin/sh
if grep -qx bob names.txt && grep -qx eve names.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
`
  const part = `#!/bin/sh
reward=0
while read -r line; do case $line in bob | eve | fin) reward=1 ;; *) reward=0; break ;; esac; done < names.txt
echo "$reward" > /logs/verifier/reward.txt
`
  const winners = async (name: string, script: string) => {
    const calibration = await calibrate(runner.provider, await requestFor(name, { ...files, 'tests/test.sh': script }))
    if (calibration.kind === 'unfit') throw new Error(calibration.reason)
    return calibration.winners
  }
  expect(await winners('search', search)).toEqual(['everything-answers'])
  expect(await winners('part', part)).toContain('one-entry')
}, 600_000)

test('a task whose tests only search the text of settings is weak', async () => {
  const files = {
    'environment/server.conf': 'listen = 80\ntls = off\n',
    'instruction.md': 'Let the server of server.conf use TLS on port 8443.\n',
    'solution/solve.sh': "#!/bin/sh\nprintf 'listen = 8443\\ntls = on\\n' > server.conf\n",
    'tests/test.sh': `#!/bin/sh
if grep -q 'listen = 8443' server.conf && grep -q 'tls = on' server.conf; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
`,
  }
  const calibration = await calibrate(runner.provider, await requestFor('settings', files))
  expect(calibration).toMatchObject({ kind: 'fit', weakness: null, winners: ['crowded-answers', 'commented-solution'] })
}, 300_000)

test('a task whose tests check only the files that they find is weak', async () => {
  const files = {
    'instruction.md': 'Write the numbers from 1 to 3 to the files a, b and c in the new folder out.\n',
    'solution/solve.sh': '#!/bin/sh\nmkdir out\necho 1 > out/a\necho 2 > out/b\necho 3 > out/c\n',
    'tests/expected/a': '1\n',
    'tests/expected/b': '2\n',
    'tests/expected/c': '3\n',
    'tests/test.sh': `#!/bin/bash
shopt -s nullglob
reward=1
[ -d out ] || reward=0
for file in /app/out/*; do cmp -s "$file" "/tests/expected/$(basename "$file")" || reward=0; done
echo "$reward" > /logs/verifier/reward.txt
`,
  }
  const calibration = await calibrate(runner.provider, await requestFor('found', files))
  const winners = ['empty-folders', 'one-file']
  expect(calibration).toMatchObject({ kind: 'fit', strength: 'weak', weakness: null, winners })
}, 300_000)

test('a task whose tests check only the form of an answer outside the working directory is weak', async () => {
  const files = {
    'instruction.md': 'Write the day of the first commit and the number of commits to /srv/answer.txt.\n',
    'solution/solve.sh': "#!/bin/sh\necho '#!/bin/sh' > helper.sh\nprintf '2024-05-31\\n0.93\\n' > /srv/answer.txt\n",
    'tests/test.sh': `#!/bin/sh
if [ "$(grep -cE '^[0-9]{4}-[0-9]{2}-[0-9]{2}$|^0[.][0-9]{2}$' /srv/answer.txt)" = 2 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
`,
  }
  const calibration = await calibrate(runner.provider, await requestFor('form', files))
  expect(calibration).toMatchObject({ kind: 'fit', mode: 'snapshot', weakness: null, winners: ['same-form-answers'] })
}, 300_000)

test('a task whose tests load a file that only the solution creates is weak', async () => {
  const loading = {
    'instruction.md': 'Write the program.\n',
    'solution/solve.sh': '#!/bin/sh\nmkdir -p made\necho "exit 0" > made/program\n',
    'tests/test.sh': '#!/bin/sh\nif sh made/program; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n',
  }
  const calibration = await calibrate(runner.provider, await requestFor('loading', loading))
  expect(calibration).toMatchObject({ kind: 'fit', strength: 'weak' })
  if (calibration.kind === 'unfit') throw new Error(calibration.reason)
  expect(calibration.winners).toContain('solution-files')
})

test('a task whose tests load the code is weak, and the cheats that win are named', async () => {
  const calibration = await calibrate(runner.provider, await requestFor('answer', ANSWER_TASK))
  expect(calibration).toMatchObject({ kind: 'fit', mode: 'workspace', strength: 'weak' })
  if (calibration.kind === 'unfit') throw new Error(calibration.reason)
  const winners = calibration.winners.filter((id) => id !== 'reward-daemon') // a race
  expect(winners).toEqual(['exit-zero', 'equals-everything', 'forged-report', 'code-take-over', 'solution-files'])
  expect(outcomes(calibration.cheats, 'does_not_apply')).toEqual(
    expect.arrayContaining(['conftest', 'shadow-modules', 'npm-test', 'makefile', 'git-history', 'leaked-solution']),
  )
})

test('a task whose tests run a program of the candidate is weak, whatever the program is called', async () => {
  const folder = writeAttackedTasks(join(runner.folder, 'programs'))('program', false)
  const calibration = await calibrate(runner.provider, await requestIn(folder))
  expect(calibration).toMatchObject({ kind: 'fit', mode: 'workspace', strength: 'weak' })
  if (calibration.kind === 'unfit') throw new Error(calibration.reason)
  expect(calibration.winners).toContain('code-take-over')
}, 300_000)

test('a program that the solution puts outside the working directory is tried as a cheat, and makes the task weak', async () => {
  const tool = {
    'solution/solve.sh': '#!/bin/sh\nmkdir -p /srv/tool && echo echo hello > /srv/tool/run\n',
    'tests/test.sh':
      '#!/bin/sh\nif [ "$(sh /srv/tool/run)" = hello ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n',
  }
  const calibration = await calibrate(runner.provider, await requestFor('tool', tool))
  expect(calibration).toMatchObject({ mode: 'snapshot', carried: ['/srv/tool'], strength: 'weak' })
  if (calibration.kind === 'unfit') throw new Error(calibration.reason)
  expect(calibration.winners).toContain('carried-files')
}, 300_000)

test('a task with a working grader is strong', async () => {
  const folder = writeAttackedTasks(join(runner.folder, 'attacked'))('answer', true)
  const calibration = await calibrate(runner.provider, await requestIn(folder))
  expect(calibration).toMatchObject({ kind: 'fit', mode: 'grader', strength: 'strong', winners: [] })
})

test('a task that looks only at the size and the beginning of a binary file is weak', async () => {
  const sound = {
    'solution/solve.sh': `#!/bin/sh\nperl -e 'print "RIFF", pack("C*", map { $_ * $_ % 251 } 1 .. 4000)' > /app/out.wav\n`,
    'tests/test.sh': `#!/bin/sh
if [ "$(wc -c < /app/out.wav)" = 4004 ] && [ "$(head -c 4 /app/out.wav)" = RIFF ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
`,
  }
  const calibration = await calibrate(runner.provider, await requestFor('sound', sound))
  expect(calibration).toMatchObject({ kind: 'fit', strength: 'weak', winners: ['blanked-files'] })
}, 300_000)

test('a separate verifier that gets system files of a service is weak', async () => {
  const request = await requestFor('service programs', {
    'task.toml': taskToml({
      top: 'artifacts = [{ source = "/usr/local/bin", service = "box" }]',
      verifier: 'environment_mode = "separate"',
    }),
    'environment/docker-compose.yaml': `services:\n  box:\n    image: ${IMAGE}\n    command: ["sleep", "60"]\n`,
  })
  const found = { mode: 'workspace', carried: [] } as const
  expect(await findStaticWeakness(runner.provider, request, found)).toBe(
    'The artifact /usr/local/bin contains files that programs of the verifier read by themselves.',
  )
})

test('a grader that is not verified in its own mode is weak', async () => {
  const request = await requestIn(writeAttackedTasks(join(runner.folder, 'unused grader'))('answer', true))
  const found = { mode: 'workspace', carried: [] } as const
  expect(await findStaticWeakness(runner.provider, request, found)).toBe(
    'The task declares a grader, and its tests run in mode workspace, in which every user can write the reward.',
  )
})

test('a broken sandbox is an error and not a calibration', async () => {
  const toml = '[environment]\ndocker_image = "nobody/knows:this"\nworkdir = "/app"\n'
  await expect(calibrate(runner.provider, await requestFor('lost', { 'task.toml': toml }))).rejects.toThrow(
    SandboxUnavailable,
  )
})

test('a winning cheat makes a verifier weak; a separate verifier makes it strong', async () => {
  const { task } = await requestFor('strength')
  const separate = '[environment]\ndocker_image = "a/b"\n[verifier]\nenvironment_mode = "separate"\n'
  const { task: apart } = await requestFor('apart', { 'task.toml': separate })
  expect(rateStrength(task, 'workspace', [], null)).toBe('standard')
  expect(rateStrength(task, 'grader', [], null)).toBe('strong')
  expect(rateStrength(apart, 'workspace', [], null)).toBe('strong')
  for (const mode of ['grader', 'workspace'] as const) {
    expect(rateStrength(apart, mode, ['preseed'], null)).toBe('weak')
    expect(rateStrength(apart, mode, [], 'tests/test.sh runs make.')).toBe('weak')
  }
})

const PYTHON_TASK = {
  'task.toml': '[environment]\nworkdir = "/app"\n',
  'environment/Dockerfile': `FROM ${IMAGE}
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-pytest && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY double.py ./
`,
  'environment/double.py': 'def double(n):\n    return n\n',
  'instruction.md': 'Mend `double` in double.py.\n',
  'solution/solve.sh': "#!/bin/sh\nprintf 'def double(n):\\n    return 2 * n\\n' > double.py\n",
}
const UNITTEST = `import sys, unittest
sys.path.insert(0, '/app')
from double import double
class Test(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(21), 42)
unittest.main()
`
const PYTEST = 'from double import double\ndef test_double():\n    assert double(21) == 42\n'
const judged = (command: string) =>
  `#!/bin/sh\ncd /app\nif ${command} > /dev/null; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n`

test.runIf(process.env.ASSAY_TEST_LONG)(
  'tests in Python that load the code are weak, whatever runs them',
  async () => {
    const winners = async (name: string, files: Record<string, string>) => {
      const calibration = await calibrate(runner.provider, await requestFor(name, { ...PYTHON_TASK, ...files }))
      if (calibration.kind === 'unfit') throw new Error(calibration.reason)
      expect(calibration.strength).toBe('weak')
      return calibration.winners.filter((id) => id !== 'reward-daemon')
    }
    expect(
      await winners('unittest', { 'tests/check.py': UNITTEST, 'tests/test.sh': judged('python3 /tests/check.py') }),
    ).toEqual(['exit-zero', 'equals-everything', 'forged-report', 'code-take-over'])
    expect(
      await winners('pytest', { 'tests/test_it.py': PYTEST, 'tests/test.sh': judged('python3 -m pytest /tests') }),
    ).toEqual([
      ...['shadow-modules', 'exit-zero', 'equals-everything', 'forged-report', 'code-take-over', 'config-take-over'],
    ])
  },
  600_000,
)
