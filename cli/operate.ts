import type { Command } from 'commander'
import type { Config } from '../src/config.ts'
import type { Log } from '../src/platform/log.ts'
import { Failed } from './failure.ts'
import { withExample, withGlobals } from './help.ts'
import { DATA, type Flags, openLog, readSettings } from './operate-config.ts'
import { readGlobals } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { printTable } from './table.ts'

type ParentCommands = Record<'assay' | 'keys' | 'credentials' | 'audit', Command>

/** Adds the operator's commands. They work on the database directly and need no key and no running service. */
export function addOperateCommands({ assay, keys, credentials, audit }: ParentCommands, shell: Shell): void {
  addOperation(assay, {
    name: 'migrate',
    about: 'Migrate the database; every start does this too',
    example: 'DATABASE_URL=postgres://… assay migrate',
    globals: [],
    run: (flags) => migrate(shell, flags),
  })
  addKeyOperations(keys, shell)
  addOperation(credentials, {
    name: 'rotate-master-key',
    about: 'Replace the master key; the service can keep running',
    example: 'assay credentials rotate-master-key --data /var/lib/assay',
    globals: ['--json'],
    run: (flags, command) => rotateMasterKey(shell, flags, command),
  }).option('--force', 'Rotate even if a running process lacks the new key; it then cannot open credentials')
  addOperation(audit, {
    name: 'verify',
    about: 'Check that no audit event was changed or removed; exits with 1 if one was',
    example: 'assay audit verify --data /var/lib/assay',
    globals: ['--json'],
    run: (flags, command) => verifyAudit(shell, flags, command),
  })
}

type OperatorCommand = {
  name: string
  about: string
  example: string
  globals: ('--org' | '--json')[]
  run: (flags: Flags, command: Command) => Promise<void>
}

const addOperation = (parent: Command, { name, about, example, globals, run }: OperatorCommand): Command =>
  withExample(
    withGlobals(parent.command(name), ...globals)
      .description(about)
      .option(...DATA)
      .action(run),
    example,
  )

function addKeyOperations(keys: Command, shell: Shell): void {
  withExample(
    withGlobals(keys.command('generate'))
      .description('Print a new key for ASSAY_BOOTSTRAP_KEY or ASSAY_OPERATOR_KEY; nothing is stored')
      .action(() => generateKey(shell)),
    'export ASSAY_OPERATOR_KEY="$(assay keys generate)"',
  )
  addOperation(keys, {
    name: 'recover',
    about: 'Print a new admin key for the workspace --org (default: local) whose keys were lost',
    example: 'assay keys recover --data /var/lib/assay --org local',
    globals: ['--org', '--json'],
    run: (flags, command) => recoverKey(shell, flags, command),
  })
}

type OperationContext = { config: Config; log: Log }

async function openContext(shell: Shell, flags: Flags): Promise<OperationContext> {
  const config = await readSettings(shell, flags)
  return { config, log: await openLog(shell, config, 'warn') }
}

const loadOperations = () => import('../src/operate/operate.ts')

async function migrate(shell: Shell, flags: Flags): Promise<void> {
  const { config, log } = await openContext(shell, flags)
  const { migrateStore } = await loadOperations()
  const migrations = await migrateStore(config, log)
  if (migrations.length === 0) return note(shell, 'The database is up to date.')
  for (const name of migrations) print(shell, name)
  note(shell, `${migrations.length === 1 ? 'One migration' : `${migrations.length} migrations`} ran.`)
}

async function generateKey(shell: Shell): Promise<void> {
  const { generateKey: generate } = await loadOperations()
  print(shell, generate())
}

async function recoverKey(shell: Shell, flags: Flags, command: Command): Promise<void> {
  const { org = 'local', json } = readGlobals(command)
  const { config, log } = await openContext(shell, flags)
  const { recoverKey: recover } = await loadOperations()
  const key = await recover(config, log, org)
  if (json) return printJson(shell, key)
  note(shell, `New admin key of the workspace ${org}, shown only once:`)
  print(shell, key.key)
}

async function rotateMasterKey(shell: Shell, flags: Flags & { force?: boolean }, command: Command): Promise<void> {
  const { config, log } = await openContext(shell, flags)
  const { rotateMasterKey: rotate } = await loadOperations()
  const rotation = await rotate(config, log, flags.force ?? false)
  if (readGlobals(command).json) printJson(shell, rotation)
  else if (rotation.from === rotation.to) note(shell, NOTHING_TO_ROTATE)
  else print(shell, `${rotation.from} → ${rotation.to}, ${rotation.rewrapped} credentials re-encrypted`)
  if (rotation.broken.length === 0) return

  note(
    shell,
    `These credentials could not be opened, neither before nor after the rotation. Enter their secrets again: ${rotation.broken.join(', ')}`,
  )
  throw new Failed()
}

const NOTHING_TO_ROTATE = 'Nothing to do: ASSAY_SECRET_KEY starts with the key in use. Set it to "new,old" to rotate.'

async function verifyAudit(shell: Shell, flags: Flags, command: Command): Promise<void> {
  const { config, log } = await openContext(shell, flags)
  const { verifyAuditLogs } = await loadOperations()
  const chains = await verifyAuditLogs(config, log)
  if (readGlobals(command).json) printJson(shell, { chains })
  else {
    printTable(shell, chains, [
      ['WORKSPACE', ({ login }) => login],
      ['AUDIT LOG', ({ brokenAt }) => (brokenAt === null ? 'unbroken' : `broken at event ${brokenAt}`)],
    ])
  }
  if (chains.some(({ brokenAt }) => brokenAt !== null)) throw new Failed()
}
