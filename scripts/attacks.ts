import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { openFolderSource } from '../src/harbor/folder-source.ts'
import { readTask } from '../src/harbor/read-task.ts'
import { createCommandHarness } from '../src/harnesses/reference.ts'
import { calibrate } from '../src/trials/calibrate.ts'
import { VERIFY_MODES, type VerifyMode } from '../src/trials/record.ts'
import type { VerifierStrength } from '../src/trials/verifier-strength.ts'
import { testKubeconfig } from '../test/support/sandboxes/kubernetes-subject.ts'
import {
  type AttackedTask,
  BUILT_TASKS,
  PLAIN_TASKS,
  TASK_KINDS,
  TOOL_TASKS,
  writeAttackedTasks,
} from '../test/support/trials/attacked-tasks.ts'
import { ATTACKS, type Attack } from '../test/support/trials/attacks.ts'
import { TOOLS_IMAGE, toolsRootfs } from '../test/support/trials/tools-image.ts'
import { openTrialRunner, SANDBOXES, type SandboxName } from '../test/support/trials/trial-runner.ts'
import { ROOT } from './files.ts'

// Calibrates the attacked tasks, tries every attack in every verify mode and sandbox, and writes docs/attacks.md. Arguments
// are names of sandboxes: only these are tried, and their sections are replaced in the existing page. `--tasks a,b` tries
// only these tasks and writes their rows into the existing page. Kubernetes is one of the sandboxes if
// ASSAY_TEST_KUBECONFIG names a cluster that has the images debian:bookworm-slim, node:24-bookworm-slim and
// assay-tests/tools:1.

/** Number of times that an attack is tried if it may be a race. Other attacks are tried once. */
const RACE_TRIES = 3
/** Number of attacks that are tried at the same time in a cluster, where a trial mostly waits for pods. */
const PARALLEL_IN_CLUSTER = 6

type TrialRunner = Awaited<ReturnType<typeof openTrialRunner>>
/** Result of an attack in one verify mode. Undefined if the reference solution does not pass in the mode. */
type AttackCell = { wins: number; tries: number } | undefined
/** Results of an attack, one cell per verify mode. */
type AttackRow = { attack: Attack; cells: AttackCell[] }
type CalibratedTask = {
  name: string
  weakness: string | null
  mode: VerifyMode
  strength: VerifierStrength
  /** Names of the known cheats that pass. */
  winners: string[]
}
type SandboxResult = { isolation: string; rows: AttackRow[]; tasks: CalibratedTask[] }

type TaskFilter = (task: AttackedTask) => boolean

/** Calibrates the tasks and tries all attacks on them in one sandbox. */
async function tryAttacks(name: SandboxName, isChosenTask: TaskFilter): Promise<SandboxResult> {
  const isKubernetes = name === 'kubernetes'
  // Kubernetes builds no images.
  const isTried: TaskFilter = (task) => isChosenTask(task) && !(isKubernetes && BUILT_TASKS.has(task))
  const toolsImage = { name: TOOLS_IMAGE, rootfs: toolsRootfs }
  const images = TOOL_TASKS.some(isTried) ? [toolsImage] : []
  await using runner = await openTrialRunner(name, { images })
  // Calibration takes about a hundred trials, which would take long in a cluster.
  await using localRunner = isKubernetes ? await openTrialRunner('bwrap', { images }) : undefined
  const folderOf = writeOnce(writeAttackedTasks(runner.folder))
  const { isolation } = await runner.provider.selfTest()
  const parallel = isKubernetes ? PARALLEL_IN_CLUSTER : 1
  const variants = ALL_TASKS.filter(isTried).flatMap((task) =>
    (hasGrader(task) ? [false, true] : [false]).map((isGraded) => ({ task, isGraded })),
  )
  const tasks: CalibratedTask[] = []
  for (const { task, isGraded } of variants) {
    const calibrated = await calibrateTask(localRunner ?? runner, folderOf(task, isGraded), task, isGraded)
    const { mode, strength, winners } = calibrated
    process.stdout.write(`${name}: task ${calibrated.name}: ${mode} ${strength} ${winners}\n`)
    tasks.push(calibrated)
  }
  const attacks = ATTACKS.filter(({ task }) => isTried(task))
  const rows = await mapParallel(attacks, parallel, async (attack) => {
    const cells: AttackCell[] = []
    for (const mode of VERIFY_MODES) cells.push(await tryAttack(runner, folderOf, attack, mode))
    process.stdout.write(`${name}: ${attack.name}: ${cells.map(formatCell).join(' ')}\n`)
    return { attack, cells }
  })
  return { isolation, rows, tasks }
}

type FolderOf = ReturnType<typeof writeAttackedTasks>

/** Writes each task only once, because another trial may be reading its files when it is needed again. */
function writeOnce(write: FolderOf): FolderOf {
  const written = new Map<string, string>()
  return (task, isGraded) => {
    const key = `${task} ${isGraded}`
    const folder = written.get(key) ?? write(task, isGraded)
    written.set(key, folder)
    return folder
  }
}

/** Maps items in their order, with at most `parallel` at the same time. */
async function mapParallel<T, R>(items: readonly T[], parallel: number, map: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  const queue = items.entries()
  const worker = async (): Promise<void> => {
    for (const [index, item] of queue) results[index] = await map(item)
  }
  await Promise.all(Array.from({ length: parallel }, worker))
  return results
}

const createOutputFolder = ({ folder }: TrialRunner): string => mkdtempSync(join(folder, 'output-'))

const ALL_TASKS: readonly AttackedTask[] = [...PLAIN_TASKS, ...TOOL_TASKS]

const hasGrader = (task: AttackedTask): boolean => task === 'hello' || task === 'answer'

async function calibrateTask(
  runner: TrialRunner,
  folder: string,
  task: AttackedTask,
  isGraded: boolean,
): Promise<CalibratedTask> {
  const { task: parsedTask, digest } = await readTask(await openFolderSource(folder))
  const signal = new AbortController().signal
  const calibration = await calibrate(runner.provider, {
    task: parsedTask,
    digest,
    folder,
    variables: {},
    signal,
    onPhase: () => {},
    outputFolder: createOutputFolder(runner),
  })
  const name = isGraded ? `${task}, with a grader` : task
  if (calibration.kind === 'unfit') throw new Error(`The task ${name} cannot be calibrated: ${calibration.reason}`)
  const { mode, strength, winners, weakness } = calibration
  return { name, mode, strength, winners, weakness }
}

/** Tries an attack in one verify mode. Throws if a trial ends without a verdict. */
async function tryAttack(
  runner: TrialRunner,
  folderOf: FolderOf,
  { name, task, line, wins: expected }: Attack,
  mode: VerifyMode,
): Promise<AttackCell> {
  if (mode !== 'shared-live' && expected[mode] === undefined) return undefined
  const isRace = mode === 'shared-live' ? name.includes('daemon') : expected[mode] === 'race'
  const tries = isRace ? RACE_TRIES : 1
  let wins = 0
  for (let attempt = 0; attempt < tries; attempt += 1) {
    const folder = folderOf(task, mode === 'grader')
    const options = { isProven: true, outputFolder: createOutputFolder(runner) }
    const { state, error } = await runner.run(folder, createCommandHarness(line), mode, options)
    if (state === 'errored') throw new Error(`The attack ${name} ended without a verdict: ${error}`)
    if (state === 'passed') wins += 1
  }
  return { wins, tries }
}

function formatCell(cell: AttackCell): string {
  if (!cell) return '–'
  const { wins, tries } = cell
  if (wins === 0) return '0'
  return wins === tries ? '**1**' : `**${wins}/${tries}**`
}

/** An attack on a task that is not weak, in the mode that calibration chose. */
type TrustedAttack = { attack: Attack; taskName: string; mode: VerifyMode; wins: number }

/** Lists attacks on tasks that calibration did not mark as weak, in the mode that it chose. */
function listTrustedAttacks({ rows, tasks }: SandboxResult): TrustedAttack[] {
  return tasks
    .filter(({ strength }) => strength !== 'weak')
    .flatMap(({ name: taskName, mode }) =>
      rows
        .filter(({ attack }) => taskName.split(',')[0] === attack.task)
        .flatMap(({ attack, cells }) => {
          const cell = cells[VERIFY_MODES.indexOf(mode)]
          return cell ? [{ attack, taskName, mode, wins: cell.wins }] : []
        }),
    )
}

/** Lists attacks that win although calibration did not mark the task as weak. There must be none. */
const listUnmarkedWins = (result: SandboxResult): string[] =>
  listTrustedAttacks(result)
    .filter(({ wins }) => wins > 0)
    .map(({ attack, taskName, mode }) => `${attack.name} (${taskName}, mode ${mode})`)

const TASK_HEAD = ['| task | mode | strength | cheats that win | weakness in the files |', '|---|---|---|---|---|']
const ATTACK_HEAD = [
  `| attack | task | ${VERIFY_MODES.map((mode) => `\`${mode}\``).join(' | ')} |`,
  `|---|---|${VERIFY_MODES.map(() => '---|').join('')}`,
]

const renderTaskRows = ({ tasks }: SandboxResult): string[] =>
  tasks.map(
    ({ name, mode, strength, winners, weakness }) =>
      `| ${name} | \`${mode}\` | ${strength} | ${winners.length === 0 ? 'none' : winners.join(', ')} | ${weakness ?? 'none'} |`,
  )

const renderAttackRows = ({ rows }: SandboxResult): string[] =>
  rows.map(({ attack, cells }) => `| ${attack.name} | ${attack.task} | ${cells.map(formatCell).join(' | ')} |`)

const renderSection = (result: SandboxResult): string =>
  [
    `## ${result.isolation}`,
    '',
    `Tried at commit ${commit}, on ${today}.`,
    '',
    ...TASK_HEAD,
    ...renderTaskRows(result),
    '',
    ...ATTACK_HEAD,
    ...renderAttackRows(result),
  ].join('\n')

const KIND_ROWS = ALL_TASKS.map((task) => `| ${task} | ${TASK_KINDS[task]} |`)

/** Line of the template that is replaced by the summary. */
const SUMMARY_PLACEHOLDER = 'Verdicts held: RESULT'

/** Counts in the tables of a page how many attacks failed on tasks that are not weak. */
function summarise(page: string): string {
  const sections = page.split(/\n(?=## )/).filter((text) => text.includes(ATTACK_HEAD[0] ?? ''))
  const readRows = (text: string) => text.split('\n').map((line) => line.slice(2, -2).split(' | '))
  const counts = sections.map((text) => {
    const [taskTable = '', attackTable = ''] = text.split(ATTACK_HEAD[0] ?? '')
    const tasks = readRows(taskTable).filter(([, mode]) => VERIFY_MODES.some((each) => mode === `\`${each}\``))
    const trusted = tasks.filter(([, , strength]) => strength !== 'weak')
    const tried = trusted.flatMap(([name, mode]) => {
      const column = 2 + VERIFY_MODES.findIndex((each) => mode === `\`${each}\``)
      return readRows(attackTable).filter((cells) => cells[1] === name?.split(',')[0] && cells[column] !== '–')
    })
    return { tasks: tasks.length, trusted: trusted.length, tried: tried.length }
  })
  const attackCount = counts.reduce((sum, { tried }) => sum + tried, 0)
  const [first] = counts
  return `Verdicts held: all ${attackCount} attacks on tasks that calibration does not mark as weak failed. These are ${first?.trusted} of ${first?.tasks} tasks, attacked in ${counts.length} sandboxes.`
}

/** Writes the rows of results into an existing page: replaces rows of the same task or attack and adds the others. */
function mergePage(page: string, results: readonly SandboxResult[]): string {
  const [head = '', ...sections] = page.split(/\n(?=## )/)
  const merged = sections.map((text) => {
    if (text.startsWith('## How to read')) return mergeRows(text, KIND_ROWS, ALL_TASKS)
    const result = results.find(({ isolation }) => text.startsWith(`## ${isolation}\n`))
    if (!result) return text
    const names = ALL_TASKS.flatMap((task) => [task, `${task}, with a grader`])
    const [tasks = '', attacks = ''] = text.split(/\n\n(?=\| attack )/)
    const attackNames = ATTACKS.map(({ name }) => name)
    return [
      mergeRows(tasks, renderTaskRows(result), names),
      mergeRows(attacks, renderAttackRows(result), attackNames),
    ].join('\n\n')
  })
  const note = `Rows of ${results[0]?.tasks.map(({ name }) => name).join(', ')} were tried on ${today}.`
  const text = [head, ...merged]
    .join('\n')
    .trimEnd()
    .replace(/( Rows of [^\n]*)?$/, ` ${note}\n`)
  return text.replace(/^Verdicts held: .*$/m, summarise(text))
}

/** Replaces the sections of the tried sandboxes in an existing page, and adds missing sections. */
function replaceSections(page: string, results: readonly SandboxResult[]): string {
  const sections = page.trimEnd().split(/\n\n(?=## )/)
  const lastSection = sections.pop() ?? ''
  for (const result of results) {
    const index = sections.findIndex((text) => text.startsWith(`## ${result.isolation}\n`))
    if (index < 0) sections.push(renderSection(result))
    else sections[index] = renderSection(result)
  }
  const text = [...sections, lastSection, ''].join('\n\n').replace(/\n+$/, '\n')
  return text.replace(/^Verdicts held: .*$/m, summarise(text))
}

/** Merges rows into the table of a text, in the order of `names`, which are the contents of the first column. */
function mergeRows(text: string, rows: readonly string[], names: readonly string[]): string {
  const nameOf = (row: string): string => row.split(' | ')[0]?.replace(/^\| /, '') ?? ''
  const isRow = (line: string): boolean => line.startsWith('| ') && names.includes(nameOf(line))
  const lines = text.split('\n')
  const rowsByName = new Map([...lines.filter(isRow), ...rows].map((row) => [nameOf(row), row]))
  const table = names.flatMap((name) => rowsByName.get(name) ?? [])
  const firstRow = lines.findIndex(isRow)
  return [...lines.slice(0, firstRow), ...table, ...lines.slice(firstRow).filter((line) => !isRow(line))].join('\n')
}

const { values, positionals: chosenSandboxes } = parseArgs({
  allowPositionals: true,
  options: { tasks: { type: 'string' } },
})
const chosenTasks = values.tasks?.split(',')
const isChosenTask: TaskFilter = (task) => chosenTasks?.includes(task) ?? true
const available: SandboxName[] = [...SANDBOXES, ...(testKubeconfig === undefined ? [] : ['kubernetes' as const])]
const sandboxNames = available.filter((name) => chosenSandboxes.length === 0 || chosenSandboxes.includes(name))
const today = new Date().toISOString().slice(0, 10)
const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: ROOT, encoding: 'utf8' }).trim()
const results: SandboxResult[] = []
if (chosenTasks) for (const name of sandboxNames) results.push(await tryAttacks(name, isChosenTask))
else results.push(...(await Promise.all(sandboxNames.map((name) => tryAttacks(name, isChosenTask)))))
const unmarkedWins = results.flatMap((result) => listUnmarkedWins(result).map((win) => `${result.isolation}: ${win}`))

const tables = `# Attacks on the verdict

${SUMMARY_PLACEHOLDER}

Each attack is an agent that does not solve its task and tries to pass all the same. The attacks run in every sandbox and in every verify mode in which the task can be solved.

## How to read the tables

The first table of each sandbox lists the attacked tasks: the verify mode that calibration chose, the strength that it assigned, the cheats that won, and why the files of the task do not show that its tests only read. The second table lists the attacks. A cell shows how often the attack passed: \`0\` means never, **1** means always, and **n/${RACE_TRIES}** means n of ${RACE_TRIES} tries. Attacks that may be a race are tried ${RACE_TRIES} times, the others once. A dash means that the task has no solution in that mode. An attack that does not pass counts as failed; none of them is excluded from the results.

Only the column of the calibrated mode decides what a task is worth. The other columns show what the stricter modes prevent: in \`shared-cold\` the tests see everything that the agent changed, and in \`shared-live\` also the processes that it left running.

| task | tests |
|---|---|
${KIND_ROWS.join('\n')}

Tests that load or execute the candidate's code as the user who writes the reward cannot be protected by a sandbox: that code can write the reward itself. Calibration marks such tasks as weak. A [grader](tasks.md#grader) or a separate verifier avoids it.

Two attacks are not cheats: *a link out of the workspace to a right answer* and *a folder replaced by a link to a right answer* do the work in another place. They show that the strict modes follow no links out of the carried paths.

Sandboxes in Kubernetes do not build images, so tasks with a Dockerfile are not tried there. Tasks for Kubernetes are calibrated in bubblewrap, because the hundred trials of a calibration take long in a cluster.

${results.map(renderSection).join('\n\n')}

## How this page was made

Generated by \`node_modules/.bin/node scripts/attacks.ts\`. The script needs root, bubblewrap, runc and dockerd, and a cluster for the attacks in Kubernetes.
`
const wins = `These attacks win although calibration does not mark the task as weak:\n\n${unmarkedWins.map((win) => `- ${win}`).join('\n')}`
const page = tables.replace(SUMMARY_PLACEHOLDER, unmarkedWins.length === 0 ? summarise(tables) : wins)
const path = join(ROOT, 'docs/attacks.md')
const existing = readFileSync(path, 'utf8')
const isWholePage = !chosenTasks && chosenSandboxes.length === 0
if (isWholePage) writeFileSync(path, page)
else if (unmarkedWins.length > 0) process.stdout.write(`${unmarkedWins.join('\n')}\n`)
else writeFileSync(path, chosenTasks ? mergePage(existing, results) : replaceSections(existing, results))
if (unmarkedWins.length > 0) process.exitCode = 1
