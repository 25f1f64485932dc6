import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { inSandboxes } from '../../test/support/trials/in-sandboxes.ts'
import { IMAGE, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness } from '../harnesses/reference.ts'
import type { VerifyMode } from './record.ts'
import type { AgentConfiguration } from './trial-request.ts'

const SECRET = 'secret-of-the-configuration'

const FILES = [
  { path: 'AGENTS.md', text: `${SECRET}\n`, executable: false },
  { path: 'README.md', text: `${SECRET} instead\n`, executable: false },
  { path: 'docs/rules.md', text: `${SECRET}\n`, executable: false },
  { path: '.claude/skills/review/run.sh', text: `#!/bin/sh\necho ${SECRET}\n`, executable: true },
]

const configure = (more: Partial<AgentConfiguration> = {}): AgentConfiguration => ({
  files: FILES,
  instructionPrefix: '',
  instructionSuffix: '',
  mcpServers: [],
  arguments: [],
  ...more,
})

/** Fails if anything of the configuration is there, except in names that the agent chose, or if the task's files differ. */
const TEST_SH = `#!/bin/bash
cd /app
found=$(grep -rl ${SECRET} / --exclude-dir=proc --exclude-dir=sys --exclude-dir=tests 2>/dev/null | grep -v '/own')
echo "found: $found"; ls -laR /app
if [ -z "$found" ] && [ "$(cat hello.txt)" = hello ] && [ ! -e AGENTS.md ] && [ ! -L AGENTS.md ] && [ ! -e .claude ] &&
  [ "$(cat README.md)" = 'of the task' ] && [ "$(cat docs/guide.md)" = guide ] && [ ! -e docs/rules.md ]
then echo 1; else echo 0; fi > /logs/verifier/reward.txt
`

const TASK = {
  'task.toml': taskToml({ end: '[metadata.assay]\ngrader = true' }, null),
  'environment/Dockerfile': `FROM ${IMAGE}\nWORKDIR /app\nRUN echo 'of the task' > README.md && mkdir docs && echo guide > docs/guide.md\n`,
  'tests/test.sh': TEST_SH,
}

/** The agent passes only if it sees every file of the configuration. */
const SOLVE = `grep -q ${SECRET} AGENTS.md && grep -q ${SECRET} README.md && grep -q ${SECRET} docs/rules.md &&
  .claude/skills/review/run.sh | grep -q ${SECRET} && echo hello > hello.txt\n`

/** What the agent does with the files, and the files whose changes are dropped. */
const ATTACKS: { name: string; line: string; dropped?: string[] }[] = [
  { name: 'only reads them', line: 'true' },
  {
    name: 'changes, deletes and replaces them',
    line: `echo more >> README.md; rm docs/rules.md; rm AGENTS.md; mkdir AGENTS.md; echo ${SECRET} > AGENTS.md/inner`,
    dropped: ['AGENTS.md', 'README.md', 'docs/rules.md'],
  },
  {
    name: 'hides them behind links and rights',
    line: `mv AGENTS.md own.md; ln -s own.md AGENTS.md; ln README.md own-link.md; chmod 000 README.md docs/rules.md
      mv .claude own-claude; mkdir .claude; chmod 000 .claude`,
    dropped: ['AGENTS.md', '.claude/skills/review/run.sh'],
  },
  { name: 'copies them', line: 'cp AGENTS.md own-copy.md; mkdir own; cp -r .claude own/claude' },
]

const MODES: VerifyMode[] = ['grader', 'workspace', 'snapshot', 'shared-cold', 'shared-live']

inSandboxes(({ runner, sandbox, isFull }) => {
  const modes = isFull ? MODES : MODES.filter((mode) => mode !== 'grader')

  test.each(modes)(
    'in mode %s the verifier and the patch never see files of a configuration',
    async (mode) => {
      const task = writeTask(join(runner.folder, `task-${mode}`), TASK)
      for (const { name, line, dropped = [] } of isFull ? ATTACKS : ATTACKS.slice(1, 3)) {
        const options = { savesPatch: true, isProven: true, configuration: configure() }
        const record = await runner.run(task, createCommandHarness(`${SOLVE}\n${line}`), mode, options)
        const log = runner.output('verifier-1.log')
        expect({ name, state: record.state, error: record.error, log }).toMatchObject({ name, state: 'passed' })
        const reported = record.steps[0]?.droppedChanges ?? []
        if (mode !== 'shared-live')
          expect({ name, dropped: reported.toSorted() }).toEqual({ name, dropped: dropped.toSorted() })
        const patch = readFileSync(join(runner.folder, 'changes.patch'), 'utf8')
        const shown = [...patch.matchAll(/^diff --git a\/(\S+)/gm)].map(([, path = '']) => path)
        expect({ name, foreign: shown.filter((path) => path !== 'hello.txt' && !path.startsWith('own')) }).toEqual({
          name,
          foreign: [],
        })
      }
    },
    300_000,
  )

  test('artifacts and a separate verifier get the files of the task instead', async () => {
    const task = writeTask(join(runner.folder, 'separate'), {
      ...TASK,
      'task.toml': taskToml(
        { top: 'artifacts = ["/app", "/app/README.md", "/app/AGENTS.md"]', verifier: 'environment_mode = "separate"' },
        null,
      ),
      'tests/Dockerfile': `FROM ${IMAGE}\nCOPY test.sh /tests/test.sh\n`,
    })
    const harness = createCommandHarness(`${SOLVE}\necho more >> AGENTS.md`)
    const record = await runner.run(task, harness, 'workspace', { isProven: true, configuration: configure() })
    expect(record, runner.output('verifier-1.log')).toMatchObject({ state: 'passed' })
    const [folder] = record.steps[0]?.artifacts ?? []
    expect(record.steps[0]?.artifacts.map(({ files, error }) => ({ files, error }))).toEqual([
      { files: expect.any(Number), error: null },
      { files: 1, error: null },
      { files: 0, error: null },
    ])
    const unpacked = join(runner.folder, 'artifacts', folder?.destination ?? '')
    expect(readFileSync(join(unpacked, 'README.md'), 'utf8')).toBe('of the task\n')
    expect(existsSync(join(unpacked, 'AGENTS.md'))).toBe(false)
  }, 120_000)

  test.runIf(isFull)(
    'a file that the task links or keeps elsewhere is restored, and impossible places are refused',
    async () => {
      const task = writeTask(join(runner.folder, `links-${sandbox}`), {
        ...TASK,
        'environment/Dockerfile': `FROM ${IMAGE}\nWORKDIR /app\nRUN echo 'of the task' > README.md && ln -s README.md CLAUDE.md && ln -s /etc docs && mkdir folder.md\n`,
        'tests/test.sh': `#!/bin/bash\n[ "$(readlink /app/CLAUDE.md)" = README.md ] && ! grep -r ${SECRET} /app && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n`,
        'solution/solve.sh': '#!/bin/bash\ntrue\n',
      })
      const place = (path: string) => ({
        isProven: true,
        configuration: configure({ files: [{ ...FILES[0], path } as never] }),
      })
      for (const mode of ['workspace', 'snapshot', 'shared-live'] as const)
        expect(
          await runner.run(
            task,
            createCommandHarness(`grep ${SECRET} CLAUDE.md && ! grep ${SECRET} README.md`),
            mode,
            place('CLAUDE.md'),
          ),
          mode,
        ).toMatchObject({ state: 'passed', class: 'verified' })
      for (const path of ['docs/rules.md', 'folder.md', 'README.md/inner'])
        expect(await runner.run(task, createCommandHarness('true'), 'workspace', place(path)), path).toMatchObject({
          state: 'errored',
          class: 'operator_error',
          error: expect.stringContaining('The configuration cannot place'),
        })
    },
    120_000,
  )

  test.runIf(isFull)(
    'every step has the files, and hooks, later steps and a running environment leave none behind',
    async () => {
      const hook = `[[verifier.collect]]\ncommand = "cp -r /app /logs/artifacts/app"\ntimeout_sec = 10\n`
      const check = `#!/bin/bash
found=$(grep -rl ${SECRET} /app /logs/artifacts 2>/dev/null)
[ -z "$found" ] && cmp /app/README.md /tests/expected.txt && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
`
      const steps = (more: string) =>
        writeTask(join(runner.folder, `steps-${more === '' ? 'alone' : 'inside'}`), {
          ...TASK,
          'task.toml': taskToml(
            { environment: more, end: `${hook}[[steps]]\nname = "one"\n[[steps]]\nname = "two"` },
            null,
          ),
          'tests/test.sh': check,
          'steps/one/instruction.md': 'First.',
          'steps/one/solution/solve.sh': '#!/bin/bash\ntrue\n',
          'steps/one/workdir/README.md': 'of step one\n',
          'steps/one/tests/expected.txt': 'of step one\n',
          'steps/two/workdir/README.md': 'of step two\n',
          'steps/two/tests/expected.txt': 'of step two\n',
          'steps/two/instruction.md': 'Second.',
          'steps/two/solution/solve.sh': '#!/bin/bash\ntrue\n',
        })
      const work = `${SOLVE}\necho more >> AGENTS.md; [ -e hello.txt ] || exit 1`
      for (const environment of ['', '[environment.healthcheck]\ncommand = "true"'])
        for (const mode of ['workspace', 'snapshot', 'shared-cold'] as const) {
          const options = { isProven: true, savesPatch: true, configuration: configure() }
          const record = await runner.run(steps(environment), createCommandHarness(work), mode, options)
          const seen = record.steps.map(({ agent, reward }) => [agent?.code, reward])
          expect({ environment, mode, seen, error: record.error }).toEqual({
            environment,
            mode,
            seen: [
              [0, 1],
              [0, 1],
            ],
            error: null,
          })
          expect(readFileSync(join(runner.folder, 'changes.patch'), 'utf8')).not.toContain(SECRET)
        }
    },
    300_000,
  )

  test.runIf(isFull)('the instruction is surrounded by the texts of the configuration', async () => {
    const task = writeTask(join(runner.folder, 'texts'))
    const configuration = configure({ files: [], instructionPrefix: 'Before.', instructionSuffix: 'After.' })
    const harness = createCommandHarness('cat; echo hello > hello.txt')
    expect(await runner.run(task, harness, 'workspace', { configuration })).toMatchObject({ state: 'passed' })
    expect(runner.output('agent-1.log')).toBe('Before.\n\nWrite the word hello to /app/hello.txt.\n\n\nAfter.')
  })
})
