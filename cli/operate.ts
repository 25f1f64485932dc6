import type { Command } from 'commander'
import type { Config } from '../src/config.ts'
import type { Log } from '../src/platform/log.ts'
import { Failed } from './failure.ts'
import { withExample, withGlobals } from './help.ts'
import { DATA, type Flags, openLog, readSettings } from './operate-config.ts'
import { globalsOf } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { printTable } from './table.ts'

type Places = Record<'assay' | 'keys' | 'credentials' | 'audit', Command>

/** What the owner of the machine does on the database itself, without a key and without a running service. */
export function addOperateCommands({ assay, keys, credentials, audit }: Places, shell: Shell): void {
  addOperation(assay, {
    name: 'migrate',
    about: 'Bring the database up to date; every start does so too',
    example: 'DATABASE_URL=postgres://… assay migrate',
    globals: [],
    run: (flags) => migrate(shell, flags),
  })
  addKeyOperations(keys, shell)
  addOperation(credentials, {
    name: 'rotate-master-key',
    about: 'Put a new master key in the place of the old one; the service may run meanwhile',
    example: 'assay credentials rotate-master-key --data /var/lib/assay',
    globals: ['--json'],
    run: (flags, command) => rotateMasterKey(shell, flags, command),
  }).option('--force', 'rotate although a running process does not hold the new key; it then opens no credential')
  addOperation(audit, {
    name: 'verify',
    about: 'Check that no event of any workspace was changed or removed; exits 1 when one was',
    example: 'assay audit verify --data /var/lib/assay',
    globals: ['--json'],
    run: (flags, command) => verifyAudit(shell, flags, command),
  })
}

type Operation = {
  name: string
  about: string
  example: string
  globals: ('--org' | '--json')[]
  run: (flags: Flags, command: Command) => Promise<void>
}

const addOperation = (parent: Command, { name, about, example, globals, run }: Operation): Command =>
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
    about: 'Print a new admin key of the workspace --org (local), for one whose keys were all lost',
    example: 'assay keys recover --data /var/lib/assay --org local',
    globals: ['--org', '--json'],
    run: (flags, command) => recoverKey(shell, flags, command),
  })
}

type Surroundings = { config: Config; log: Log }

async function surroundings(shell: Shell, flags: Flags): Promise<Surroundings> {
  const config = await readSettings(shell, flags)
  return { config, log: await openLog(shell, config, 'warn') }
}

const operations = () => import('../src/operate/operate.ts')

async function migrate(shell: Shell, flags: Flags): Promise<void> {
  const { config, log } = await surroundings(shell, flags)
  const { migrateStore } = await operations()
  const ran = await migrateStore(config, log)
  if (ran.length === 0) return note(shell, 'Nothing was to do: the database is up to date.')
  for (const name of ran) print(shell, name)
  note(shell, `${ran.length === 1 ? 'One migration' : `${ran.length} migrations`} ran.`)
}

async function generateKey(shell: Shell): Promise<void> {
  const { generateKey: generate } = await operations()
  print(shell, generate())
}

async function recoverKey(shell: Shell, flags: Flags, command: Command): Promise<void> {
  const { org = 'local', json } = globalsOf(command)
  const { config, log } = await surroundings(shell, flags)
  const { recoverKey: recover } = await operations()
  const key = await recover(config, log, org)
  if (json) return printJson(shell, key)
  note(shell, `A new admin key of the workspace ${org}, shown this once:`)
  print(shell, key.key)
}

async function rotateMasterKey(shell: Shell, flags: Flags & { force?: boolean }, command: Command): Promise<void> {
  const { config, log } = await surroundings(shell, flags)
  const { renewMasterKey } = await operations()
  const rotation = await renewMasterKey(config, log, flags.force ?? false)
  if (globalsOf(command).json) printJson(shell, rotation)
  else if (rotation.from === rotation.to) note(shell, UNCHANGED)
  else print(shell, `${rotation.from} → ${rotation.to}, ${rotation.rewrapped} credentials sealed anew`)
  if (rotation.broken.length === 0) return

  note(shell, `These credentials do not open, and did not before. Put their secrets in again: ${rotation.broken}`)
  throw new Failed()
}

const UNCHANGED = 'Nothing was to do: ASSAY_SECRET_KEY begins with the key in use. Set it to "new,old" to rotate.'

async function verifyAudit(shell: Shell, flags: Flags, command: Command): Promise<void> {
  const { config, log } = await surroundings(shell, flags)
  const { verifyAuditLogs } = await operations()
  const chains = await verifyAuditLogs(config, log)
  if (globalsOf(command).json) printJson(shell, { chains })
  else {
    printTable(shell, chains, [
      ['WORKSPACE', ({ login }) => login],
      ['AUDIT LOG', ({ brokenAt }) => (brokenAt === null ? 'unbroken' : `broken at event ${brokenAt}`)],
    ])
  }
  if (chains.some(({ brokenAt }) => brokenAt !== null)) throw new Failed()
}
