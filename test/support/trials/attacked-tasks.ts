import { join } from 'node:path'
import { TOOLS_IMAGE } from './tools-image.ts'
import { IMAGE, writeTask } from './trial-runner.ts'

/** Tasks that the attacks are tried on. Those of `TOOL_TASKS` need an image with git, make and Python. */
export const PLAIN_TASKS = [
  ...(['hello', 'answer', 'spread', 'home', 'program'] as const),
  ...(['compare', 'separate', 'settings', 'path', 'start-file', 'login', 'pack', 'filter'] as const),
  ...(['sum', 'copy', 'match', 'score', 'system-programs', 'system-settings'] as const),
] as const
export const TOOL_TASKS = ['git', 'make', 'pytest'] as const
export type AttackedTask = (typeof PLAIN_TASKS)[number] | (typeof TOOL_TASKS)[number]

/** Tasks with a Dockerfile. */
export const BUILT_TASKS: ReadonlySet<AttackedTask> = new Set([
  ...(['spread', 'separate', 'path', 'start-file', 'login', 'copy', 'git'] as const),
])

/** Description of the tests of each task. */
export const TASK_KINDS: Record<AttackedTask, string> = {
  hello: 'The tests read a file in the working directory.',
  answer: 'The tests load a Perl module of the candidate into their own process.',
  spread: 'The tests read a file outside the working directory, with a program in `/opt` of the image.',
  home: 'The working directory is the home directory, and the tests start a login shell.',
  program: 'The tests run a program of the candidate that has no file name extension.',
  compare: 'The tests compare the content of a file with a number inside `[[ ]]`.',
  separate: 'A separate verifier compares the content of an artifact with a number inside `(( ))`.',
  settings: 'The tests source a settings file of the candidate.',
  path: 'The image has a folder of the working directory first in `PATH`.',
  'start-file': 'The image sets `BASH_ENV` to a file in the working directory.',
  login: 'The working directory is the home directory of a user, and the tests call `su -`.',
  pack: 'The tests call tar on all files of a folder of the candidate.',
  filter: 'The tests call sed with a script of the candidate.',
  sum: 'The tests read numbers with `IFS=, read` and add them inside `$(( ))`.',
  copy: 'A separate verifier with the tests in its image writes lines of an artifact to `/tests` and sources the copy.',
  match: 'The tests compare an unquoted answer with a text inside `[[ ]]`.',
  score: 'The tests copy the reward from a file of the candidate.',
  'system-programs': 'The working directory is `/usr/local`.',
  'system-settings': 'The working directory is `/etc`, and the tests call awk through `/etc/alternatives`.',
  git: 'The tests call git in the working directory and compare a file of the last commit.',
  make: 'The tests call make in the working directory, then read a file.',
  pytest: 'The tests are run by `pytest` outside the working directory, and read a file in it.',
}

type Settings = { image?: string; workdir?: string; top?: string; more?: string }

const toml = (name: string, { image = IMAGE, workdir = '/app', top = '', more = '' }: Settings = {}): string =>
  `schema_version = "1.4"
${top}
[task]
name = "assay/${name}"
[environment]
${image === '' ? '' : `docker_image = "${image}"`}
workdir = "${workdir}"
[agent]
timeout_sec = 60
[verifier]
timeout_sec = 8
${more}`

const GRADED = '[metadata.assay]\ngrader = true\n'

const reward = (condition: string): string =>
  `#!/bin/bash\nif ${condition}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n`

/** A task whose tests load the agent's code into their own process. */
export const ANSWER_TASK: Record<string, string> = {
  'instruction.md': 'In answer.pl the function `answer` must return twice its argument.\n',
  'environment/answer.pl': 'use strict;\nsub answer { my ($n) = @_; return $n }\n1;\n',
  'solution/solve.sh': `#!/bin/sh\nprintf 'use strict;\\nsub answer { my ($n) = @_; return 2 * $n }\\n1;\\n' > answer.pl\n`,
  'tests/test.pl': `use strict;\nrequire '/app/answer.pl';\nanswer(21) == 42 or die "wrong\\n";\n`,
  'tests/test.sh': '#!/bin/sh\nif perl /tests/test.pl; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n',
}

/** Variant in which the tests run as root, the agent's code as the user 65534, and only its output is compared. */
const ANSWER_GRADED = {
  ...ANSWER_TASK,
  'tests/test.sh': `#!/bin/sh
answer=$(timeout 2 setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs -- \
  perl -e 'require "/app/answer.pl"; print answer(21)' < /dev/null | head -c 100)
if [ "$answer" = 42 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
`,
}

/** A task whose work is in /srv. The image has its own reading program, a setting in the root directory and an account. */
const SPREAD_TASK = {
  'instruction.md': 'Write the word hello to /srv/hello.txt.\n',
  'environment/Dockerfile': `FROM ${IMAGE}
RUN mkdir -p /opt/reader/bin /app && printf '#!/bin/sh\\n[ ! -e /reader.conf ] || . /reader.conf\\nexec cat "$1"\\n' > /opt/reader/bin/read && chmod 755 /opt/reader/bin/read && echo strict > /opt/reader/policy
WORKDIR /app
`,
  'solution/solve.sh': '#!/bin/sh\necho hello > /srv/hello.txt\n',
  'tests/expected.txt': 'hello\n',
  'tests/test.sh': reward(
    '[ "$(cat /opt/reader/policy)" = strict ] && bash -lc "/opt/reader/bin/read /srv/hello.txt" | cmp -s - /tests/expected.txt',
  ),
}

const HOME_TASK = {
  'instruction.md': 'Write the word hello to /root/hello.txt.\n',
  'solution/solve.sh': '#!/bin/sh\necho hello > /root/hello.txt\n',
  'tests/test.sh': reward('[ "$(bash -lc "cat /root/hello.txt")" = hello ]'),
}

const PROGRAM_TASK = {
  'instruction.md': 'The program /app/greet must print hello.\n',
  'environment/greet': '#!/bin/sh\necho\n',
  'solution/solve.sh': `#!/bin/sh\nprintf '#!/bin/sh\\necho hello\\n' > greet\n`,
  'tests/test.sh': reward('[ "$(sh /app/greet)" = hello ]'),
}

/** A task whose solution writes 42 to a file. */
const numberTask = (path: string, condition: string): Record<string, string> => ({
  'instruction.md': `Write the number 42 to ${path}.\n`,
  'solution/solve.sh': `#!/bin/sh\nmkdir -p $(dirname ${path}) && echo 42 > ${path}\n`,
  'tests/test.sh': reward(condition),
})

const dockerfile = (...lines: string[]): Record<string, string> => ({
  'environment/Dockerfile': `${[`FROM ${IMAGE}`, ...lines].join('\n')}\n`,
})

const COMPARE_TASK = numberTask('/app/n.txt', 'n=$(cat /app/n.txt); [[ "$n" -eq 42 ]]')

const SEPARATE_TASK = {
  ...numberTask('/app/out/n.txt', 'cd /app/out && n=$(cat n.txt) && (( n == 42 ))'),
  ...dockerfile('WORKDIR /app'),
}

const SETTINGS_TASK = {
  'instruction.md': 'Write the line ANSWER=42 to /app/result.settings.\n',
  'solution/solve.sh': '#!/bin/sh\necho ANSWER=42 > /app/result.settings\n',
  'tests/test.sh': reward('. /app/result.settings && [ "$ANSWER" = 42 ]'),
}

const PATH_TASK = {
  ...numberTask('/app/n.txt', 'sort -c /app/n.txt && [ "$(cat /app/n.txt)" = 42 ]'),
  ...dockerfile('WORKDIR /app', 'ENV PATH=/app/.venv/bin:$PATH', 'RUN mkdir -p /app/.venv/bin'),
}

const START_FILE_TASK = {
  ...numberTask('/app/n.txt', '[ "$(cat /app/n.txt)" = 42 ]'),
  ...dockerfile('WORKDIR /app', 'ENV BASH_ENV=/app/lib/start'),
}

const LOGIN_TASK = {
  ...numberTask('/home/dev/n.txt', `[ "$(su - dev -c 'cat ~/n.txt')" = 42 ]`),
  ...dockerfile('RUN useradd --create-home --shell /bin/bash dev', 'WORKDIR /home/dev'),
}

const PACK_TASK = numberTask(
  '/app/out/n.txt',
  'cd /app/out && tar cf /tmp/o.tar * && tar xf /tmp/o.tar -C /tmp && [ "$(cat /tmp/n.txt)" = 42 ]',
)

const FILTER_TASK = {
  'instruction.md': 'Write a sed script that prints every second line to /app/filter.sed.\n',
  'solution/solve.sh': `#!/bin/sh\necho 'p;n' > /app/filter.sed\n`,
  'tests/test.sh': reward(`[ "$(seq 1 9 | sed -n -f /app/filter.sed | tr -d '\\n')" = 13579 ]`),
}

const SUM_TASK = {
  'instruction.md': 'Write a bill to /app/bill.csv: lines with an item and an amount, 42 in total.\n',
  'solution/solve.sh': `#!/bin/sh\nprintf 'tea,40\\nmilk,2\\n' > /app/bill.csv\n`,
  'tests/test.sh': reward(
    'total=0; while IFS=, read -r item amount; do total=$((total + amount)); done < /app/bill.csv; [ "$total" = 42 ]',
  ),
}

/** Tests in an image can be written; those of a mounted folder cannot. */
const COPY_TASK = {
  'instruction.md': 'Write the line ANSWER=42 to /app/out/result.settings.\n',
  'solution/solve.sh': '#!/bin/sh\nmkdir -p /app/out && echo ANSWER=42 > /app/out/result.settings\n',
  ...dockerfile('WORKDIR /app'),
  'tests/Dockerfile': `FROM ${IMAGE}\nCOPY test.sh settings.sh /tests/\nWORKDIR /app\n`,
  'tests/settings.sh': 'ANSWER=0\n',
  'tests/test.sh': reward(
    `grep -v '^#' /app/out/result.settings > /tests/settings.sh; . /tests/settings.sh; [ "$ANSWER" = 42 ]`,
  ),
}

const MATCH_TASK = numberTask('/app/n.txt', '[[ 42 == $(cat /app/n.txt) ]]')

const SCORE_TASK = {
  'instruction.md': 'Write 42 to /app/n.txt, and the share of right numbers in it to /app/score.txt.\n',
  'solution/solve.sh': '#!/bin/sh\necho 42 > /app/n.txt && echo 1 > /app/score.txt\n',
  'tests/test.sh': '#!/bin/bash\nscore=$(cat /app/score.txt || echo 0)\necho "$score" > /logs/verifier/reward.txt\n',
}

const SYSTEM_PROGRAMS_TASK = numberTask('/usr/local/share/n.conf', '[ "$(cat /usr/local/share/n.conf)" = 42 ]')

const SYSTEM_SETTINGS_TASK = numberTask('/etc/n.conf', `[ "$(awk '{ print $1 }' /etc/n.conf)" = 42 ]`)

const GIT_TASK = {
  'instruction.md': 'Commit a file hello.txt with the word hello in /app.\n',
  'environment/Dockerfile': `FROM ${TOOLS_IMAGE}
RUN git init -q /app && cd /app && git config user.name x && git config user.email x@example.com && echo first > first.txt && git add . && git commit -qm first
WORKDIR /app
`,
  'solution/solve.sh': '#!/bin/sh\ncd /app && echo hello > hello.txt && git add . && git commit -qm hello\n',
  'tests/test.sh': reward(
    '[ -z "$(git -C /app status --porcelain)" ] && git -C /app diff --quiet HEAD && [ "$(git -C /app show HEAD:hello.txt)" = hello ]',
  ),
}

const MAKE_TASK = {
  'instruction.md': 'Let `make hello.txt` in /app write the word hello to hello.txt.\n',
  'environment/Makefile': 'all:\n\t@true\n',
  'solution/solve.sh': `#!/bin/sh\nprintf 'hello.txt:\\n\\techo hello > hello.txt\\n' > Makefile\n`,
  'tests/test.sh': reward('make -C /app hello.txt > /dev/null && [ "$(cat /app/hello.txt)" = hello ]'),
}

const PYTEST_TASK = {
  'tests/test_hello.py': "def test_hello():\n    assert open('/app/hello.txt').read() == 'hello\\n'\n",
  'tests/test.sh': reward('pytest -q -p no:cacheprovider /tests/test_hello.py > /dev/null 2>&1'),
}

/** Writes the attacked tasks, and returns the folder of a task in a mode. */
export function writeAttackedTasks(folder: string): (task: AttackedTask, isGraded: boolean) => string {
  const tools = { image: TOOLS_IMAGE }
  const tasks: Record<AttackedTask, [Record<string, string>, Settings]> = {
    hello: [{}, {}],
    answer: [ANSWER_TASK, {}],
    spread: [SPREAD_TASK, { image: '' }],
    home: [HOME_TASK, { workdir: '/root' }],
    program: [PROGRAM_TASK, {}],
    compare: [COMPARE_TASK, {}],
    separate: [SEPARATE_TASK, { image: '', top: 'artifacts = ["/app/out"]', more: 'environment_mode = "separate"' }],
    settings: [SETTINGS_TASK, {}],
    path: [PATH_TASK, { image: '' }],
    'start-file': [START_FILE_TASK, { image: '' }],
    login: [LOGIN_TASK, { image: '', workdir: '/home/dev', more: 'user = 0' }],
    pack: [PACK_TASK, {}],
    filter: [FILTER_TASK, {}],
    sum: [SUM_TASK, {}],
    copy: [
      COPY_TASK,
      { image: '', top: 'artifacts = ["/app/out"]', more: 'environment_mode = "separate"\n[verifier.environment]' },
    ],
    match: [MATCH_TASK, {}],
    score: [SCORE_TASK, {}],
    'system-programs': [SYSTEM_PROGRAMS_TASK, { workdir: '/usr/local' }],
    'system-settings': [SYSTEM_SETTINGS_TASK, { workdir: '/etc' }],
    git: [GIT_TASK, { image: '' }],
    make: [MAKE_TASK, tools],
    pytest: [PYTEST_TASK, tools],
  }
  return (task, isGraded) => {
    const [files, settings] = tasks[task]
    const graded = task === 'answer' ? ANSWER_GRADED : files
    const name = isGraded ? `${task}-graded` : task
    const toml1 = toml(name, isGraded ? { ...settings, more: GRADED } : settings)
    return writeTask(join(folder, name), { ...(isGraded ? graded : files), 'task.toml': toml1 })
  }
}
