import type { Command } from 'commander'
import type { FolderCheck } from '../src/harbor/safety/check-task.ts'
import { Failed } from './failure.ts'
import { withExample, withGlobals } from './help.ts'
import { readBuildHosts } from './operate-config.ts'
import { requireFolder } from './paths.ts'
import { readGlobals } from './service.ts'
import { print, printJson, type Shell, styled } from './shell.ts'
import { alignColumns } from './table.ts'

/** Adds `assay check`, which needs no server, sandbox or key. */
export function addCheckCommand(assay: Command, shell: Shell): void {
  withExample(
    withGlobals(assay.command('check'), '--json')
      .description('Check tasks for safety without executing them; exits with 1 if one is refused')
      .argument('<folder>', "Task in Harbor's format, or a folder of tasks")
      .action((folder: string, _: object, command: Command) => check(shell, folder, command)),
    'assay check ./my-task',
  )
}

async function check(shell: Shell, folder: string, command: Command): Promise<void> {
  const { checkFolder } = await import('../src/harbor/safety/check-task.ts')
  await requireFolder(folder, 'the folder of a task, or one with tasks in it')
  const result = await checkFolder(folder, { buildHosts: await readBuildHosts(shell) })
  if (readGlobals(command).json) printJson(shell, result)
  else printFindings(shell, result)
  if (listRefused(result).length > 0) throw new Failed()
}

type CheckedTask = FolderCheck['tasks'][number]

const listRefused = ({ tasks }: FolderCheck): CheckedTask[] =>
  tasks.filter(({ findings }) => findings.some(({ severity }) => severity === 'block'))

/** Prints the findings of each task, blocking ones first, and a summary. */
function printFindings(shell: Shell, result: FolderCheck): void {
  for (const task of result.tasks.filter(({ findings }) => findings.length > 0)) {
    print(shell, styled(shell.output, 'bold', task.task))
    for (const line of formatFindings(task)) print(shell, line)
  }
  const refused = listRefused(result).length
  print(shell, `${result.tasks.length} checked, ${refused} refused (rules ${result.rules})`)
  const countStrength = (strength: string) => result.tasks.filter((task) => task.strength?.strength === strength).length
  print(
    shell,
    `verifiers, estimated from their files: ${countStrength('strong')} strong, ${countStrength('standard')} standard, ${countStrength('weak')} weak`,
  )
}

function formatFindings({ findings }: CheckedTask): string[] {
  const ordered = [
    ...findings.filter(({ severity }) => severity === 'block'),
    ...findings.filter(({ severity }) => severity !== 'block'),
  ]
  return alignColumns(
    ordered.map(({ severity, rule, path, line, detail }) => [
      `  ${severity}`,
      rule,
      line === undefined ? path : `${path}:${line}`,
      detail,
    ]),
  )
}
