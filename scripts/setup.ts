import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { confirm, isCancel, multiselect } from '@clack/prompts'
import { ROOT } from './files.ts'
import { isThere, run, thisMachine } from './setup-machine.ts'
import { PARTS, type SystemPart } from './setup-parts.ts'
import { lines, names, planFor, type SetupCommand } from './setup-plan.ts'

// npm run setup [-- --yes] [parts…]: installs missing parts of the system through its package manager, and git hooks.

const HOOKS = 'hooks'

const USAGE = `Usage: npm run setup -- [--yes] [parts…]

Shows what Assay needs of this system, and installs what is missing through its package manager, after asking.
  --yes, -y   do not ask
  parts       only these: ${[...PARTS.map(({ name }) => name), HOOKS].join(', ')}`

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    options: { yes: { type: 'boolean', short: 'y' }, help: { type: 'boolean', short: 'h' } },
    allowPositionals: true,
  })
  if (values.help) return say(USAGE, 0)
  const unknown = positionals.filter((name) => name !== HOOKS && !PARTS.some((part) => part.name === name))
  if (unknown.length > 0) {
    console.error(
      `Unknown part ${unknown.join(', ')}. Available: ${[...PARTS.map(({ name }) => name), HOOKS].join(', ')}.`,
    )
    return 2
  }
  if (positionals.includes(HOOKS) && !installHooks()) return 1
  if (positionals.length > 0 && positionals.every((name) => name === HOOKS)) return 0

  const yes = values.yes ?? false
  const missing = PARTS.filter((part) => !isThere(part))
  if (positionals.length === 0) {
    showTable(missing)
    return setUp(
      missing.filter((part) => !part.later),
      { yes, choose: true },
    )
  }
  return setUp(
    missing.filter((part) => positionals.includes(part.name)),
    { yes, choose: false },
  )
}

function showTable(missing: readonly SystemPart[]): void {
  for (const part of PARTS) {
    const state = missing.includes(part) ? 'missing' : 'there'
    console.log(`${part.name.padEnd(12)} ${state.padEnd(8)} ${part.later ? 'not needed yet: ' : ''}${part.use}`)
  }
}

type SetupMode = { yes: boolean; choose: boolean }

async function setUp(missing: readonly SystemPart[], { yes, choose }: SetupMode): Promise<number> {
  if (missing.length === 0) return say('All that is needed is there.', 0)
  const wanted = choose && !yes && isTerminal() ? await chosen(missing) : missing
  if (wanted.length === 0) return say('Nothing was installed.', 0)

  const plan = planFor(wanted, thisMachine())
  if ('refusal' in plan) return say(plan.refusal, 1)
  if (!yes && !(await agree(plan.commands))) return 1
  return install(wanted, plan.commands)
}

function install(wanted: readonly SystemPart[], commands: readonly SetupCommand[]): number {
  for (const command of commands) {
    console.log(`> ${command.join(' ')}`)
    if (!run(command, 'inherit')) return say(`${command.join(' ')} failed.`, 1)
  }
  const still = wanted.filter((part) => !isThere(part))
  if (still.length > 0) return say(`The packages are installed, yet ${names(still)} cannot be found.`, 1)
  return say(`Installed: ${names(wanted)}.`, 0)
}

async function chosen(missing: readonly SystemPart[]): Promise<SystemPart[]> {
  const answer = await multiselect({
    message: 'Which parts shall be installed?',
    options: missing.map((part) => ({ value: part, label: part.name, hint: part.use })),
    required: false,
  })
  return isCancel(answer) ? [] : answer
}

async function agree(commands: readonly SetupCommand[]): Promise<boolean> {
  if (!isTerminal()) return say(`This would run, with --yes:\n${lines(commands)}`, false)
  if ((await confirm({ message: `Run this?\n${lines(commands)}` })) === true) return true
  return say('Nothing was installed.', false)
}

/** Installs git hooks, only on request. */
function installHooks(): boolean {
  if (!existsSync(join(ROOT, '.git'))) return say('This is no git clone, so it has no hooks.', false)
  const lefthook = join(ROOT, 'node_modules/.bin/lefthook')
  if (!existsSync(lefthook)) return say('The hooks come with the development dependencies: run npm ci first.', false)
  return run([lefthook, 'install'], 'inherit')
}

const isTerminal = (): boolean => process.stdin.isTTY === true && process.stdout.isTTY === true

function say<T>(line: string, result: T): T {
  console.log(line)
  return result
}

process.exitCode = await main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : String(error))
  return 2
})
