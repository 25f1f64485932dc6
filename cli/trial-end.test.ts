import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { assay, launch, scratchFolder } from '../test/support/assay-command.ts'
import { baseRootfs } from '../test/support/base-image.ts'
import { findLeftovers } from '../test/support/sandboxes/local-subject.ts'
import { processesNaming } from '../test/support/sandboxes/processes.ts'
import { IMAGE, taskToml, writeTask } from '../test/support/trials/trial-runner.ts'

vi.setConfig({ testTimeout: 120_000 })

const folder = scratchFolder()
const data = join(folder.path, 'data')
const output = join(data, 'trials')
/** Every process of these tasks has it in its command line. */
const MARK = `1${process.pid}7`
const HERE = `echo here-we-are; sleep ${MARK}`

const COMPOSE = `services:
  main: { depends_on: [beside] }
  beside: { image: "${IMAGE}", command: ["sh", "-c", "sleep ${MARK}"] }
`
const HOOK = `[[verifier.collect]]\ncommand = "${HERE}"\ntimeout_sec = 600\n`

/** Tasks that stay in one phase until they are ended, and where it can be seen that they got there. */
const PHASES = {
  prepare: {
    log: 'build.log',
    files: { 'environment/Dockerfile': `FROM ${IMAGE}\nRUN echo here-we-are >&2 && sleep ${MARK}\n` },
  },
  agent: { log: 'agent-1.log', files: { 'solution/solve.sh': `#!/bin/sh\n${HERE}\n` } },
  collect: {
    log: 'collect-1.log',
    files: { 'task.toml': taskToml({ end: HOOK }) },
  },
  verify: { log: 'verifier-1.log', files: { 'tests/test.sh': `#!/bin/sh\n${HERE}\n` } },
  remove: { log: 'verifier-1.log', files: { 'tests/test.sh': '#!/bin/sh\necho here-we-are\n' } },
}
type ReportedPhase = keyof typeof PHASES

beforeAll(async () => {
  const imported = await assay(['images', 'import', await baseRootfs(), '--name', IMAGE, '--data', data])
  expect(imported.code, imported.err).toBe(0)
  for (const [phase, { files }] of Object.entries(PHASES)) {
    const toml = taskToml({}, phase === 'prepare' ? null : IMAGE)
    writeTask(join(folder.path, phase), { 'task.toml': toml, 'environment/docker-compose.yaml': COMPOSE, ...files })
  }
  writeTask(join(folder.path, 'plain'))
}, 600_000)
afterAll(folder.remove)

const words = (task: string, sandbox: string) => [
  'trial',
  join(folder.path, task),
  '--data',
  data,
  '--verify-mode',
  'workspace',
  '--sandbox',
  sandbox,
]

/** The program, once it is in that phase. */
async function inPhase(phase: ReportedPhase, sandbox: string) {
  const log = join(output, PHASES[phase].log)
  rmSync(log, { force: true })
  const program = launch(words(phase, sandbox))
  program.ready.catch(() => {}) // a trial never says that
  onTestFinished(() => void program.child.kill('SIGKILL'))
  await vi.waitFor(() => expect(readFileSync(log, 'utf8')).toMatch(/^here-we-are/m), { timeout: 60_000, interval: 20 })
  return program
}

const sandboxIds = (): string[] => {
  const run = join(data, 'sandboxes/local/run')
  return existsSync(run) ? readdirSync(run) : []
}

async function leftovers(ids: string[]): Promise<string[]> {
  const found = await Promise.all(ids.map((id) => findLeftovers(data, id)))
  const records = readdirSync(join(data, 'sandboxes/local/records'))
  const scratch = readdirSync(output).filter((name) => name.startsWith('.'))
  return [...found.flat(), ...sandboxIds(), ...records, ...scratch, ...(await processesNaming(MARK))]
}

const CRASHES = ['local-bwrap', 'local-runc'].flatMap((sandbox) =>
  (['prepare', 'agent', 'collect', 'verify', 'remove'] as const).map((phase) => [sandbox, phase] as const),
)

test.each(CRASHES)('%s: killed in the phase %s, nothing is left after the next start', async (sandbox, phase) => {
  const program = await inPhase(phase, sandbox)
  program.child.kill('SIGKILL')
  await program.exited
  const ids = sandboxIds()
  if (phase === 'agent') expect(ids.length).toBeGreaterThan(0)

  const next = await assay(words('plain', sandbox))

  expect(next.code, next.err).toBe(0)
  await vi.waitFor(async () => expect(await leftovers(ids)).toEqual([]), { timeout: 10_000 })
})

test.each(['prepare', 'agent', 'collect', 'verify'] as const)(
  'Ctrl-C in the phase %s stops the trial, removes its resources and exits with 130',
  async (phase) => {
    const program = await inPhase(phase, 'local-bwrap')
    const ids = sandboxIds()
    program.child.kill('SIGINT')
    expect(await program.exited).toBe(130)
    expect(program.out.text()).toBe('')
    await vi.waitFor(async () => expect(await leftovers(ids)).toEqual([]), { timeout: 10_000 })
  },
)

test('prints the last lines of a failing build, or all with --verbose', async () => {
  const dockerfile = `FROM ${IMAGE}\nRUN echo first-words && echo last-words && exit 3\n`
  const task = writeTask(join(folder.path, 'build'), {
    'task.toml': taskToml({}, null),
    'environment/Dockerfile': dockerfile,
  })
  const quiet = await assay(['trial', task, '--data', data, '--verify-mode', 'workspace'])
  expect(quiet).toMatchObject({ code: 3, err: expect.stringMatching(/error: [\s\S]*last-words/) })
  const loud = await assay(['trial', task, '--data', data, '--verify-mode', 'workspace', '--verbose'])
  expect(loud.err).toMatch(/first-words[\s\S]*error: /)
})
