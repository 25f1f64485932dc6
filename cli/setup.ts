import type { Command } from 'commander'
import { Failed, WrongUse } from './failure.ts'
import { withExample, withGlobals } from './help.ts'
import { isInstalled, readMachine, runCommand } from './setup/machine.ts'
import { SYSTEM_PARTS, type SystemPart } from './setup/parts.ts'
import { formatCommands, joinPartNames, planInstallation, type SetupCommand } from './setup/plan.ts'
import { print, type Shell } from './shell.ts'

/** Adds `assay setup`, which needs no server and no key. */
export function addSetupCommand(assay: Command, shell: Shell): void {
  withExample(
    withGlobals(assay.command('setup'))
      .description('Show which system packages Assay uses and install missing ones')
      .argument('[parts...]', `Only these parts: ${joinPartNames(SYSTEM_PARTS)}`)
      .option('-y, --yes', 'Do not ask for confirmation')
      .action((names: string[], { yes = false }: { yes?: boolean }) => setUp(shell, names, yes)),
    'assay setup --yes bwrap',
  )
}

async function setUp(shell: Shell, names: string[], yes: boolean): Promise<void> {
  const unknown = names.filter((name) => !SYSTEM_PARTS.some((part) => part.name === name))
  if (unknown.length > 0)
    throw new WrongUse(`Unknown part ${unknown.join(', ')}. Available: ${joinPartNames(SYSTEM_PARTS)}.`)

  const missing = SYSTEM_PARTS.filter((part) => !isInstalled(shell, part))
  if (names.length === 0) printParts(shell, missing)
  const installable = missing.filter((part) => (names.length === 0 ? !part.isForTests : names.includes(part.name)))
  if (installable.length === 0) return print(shell, 'Everything needed is installed.')

  const asks = names.length === 0 && !yes && isTerminal(shell)
  const chosen = asks ? await chooseParts(shell, installable) : installable
  if (chosen.length === 0) return print(shell, 'Nothing was installed.')
  const plan = planInstallation(chosen, readMachine(shell))
  if ('refusal' in plan) throw new Error(plan.refusal)
  if (!yes) await requireAgreement(shell, plan.commands)
  install(shell, chosen, plan.commands)
}

function printParts(shell: Shell, missing: readonly SystemPart[]): void {
  for (const part of SYSTEM_PARTS) {
    const state = missing.includes(part) ? 'missing' : 'installed'
    print(shell, `${part.name.padEnd(12)} ${state.padEnd(10)} ${part.use}`)
  }
}

function install(shell: Shell, parts: readonly SystemPart[], commands: readonly SetupCommand[]): void {
  for (const command of commands) {
    print(shell, `> ${command.join(' ')}`)
    if (!runCommand(command, 'inherit')) throw new Error(`${command.join(' ')} failed.`)
  }
  const stillMissing = parts.filter((part) => !isInstalled(shell, part))
  if (stillMissing.length > 0)
    throw new Error(`The packages are installed, but ${joinPartNames(stillMissing)} cannot be found on PATH.`)
  print(shell, `Installed: ${joinPartNames(parts)}.`)
}

async function chooseParts(shell: Shell, missing: readonly SystemPart[]): Promise<SystemPart[]> {
  const { isCancel, multiselect } = await import('@clack/prompts')
  const answer = await multiselect({
    message: 'Which parts do you want to install?',
    options: missing.map((part) => ({ value: part, label: part.name, hint: part.use })),
    required: false,
    input: shell.input(),
    output: shell.output,
  })
  return isCancel(answer) ? [] : answer
}

async function requireAgreement(shell: Shell, commands: readonly SetupCommand[]): Promise<void> {
  if (!isTerminal(shell)) {
    print(shell, 'With --yes, this runs:', ...formatCommands(commands))
    throw new Failed()
  }
  const { confirm } = await import('@clack/prompts')
  const message = ['Run this?', ...formatCommands(commands)].join('\n')
  if ((await confirm({ message, input: shell.input(), output: shell.output })) === true) return
  print(shell, 'Nothing was installed.')
  throw new Failed()
}

const isTerminal = (shell: Shell): boolean => shell.input().isTTY && shell.output.isTTY
