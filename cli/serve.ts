import { flushCompileCache } from 'node:module'
import type { Command } from 'commander'
import type { ServiceRole } from '../src/main.ts'
import { report } from './failure.ts'
import { withExample, withGlobals } from './help.ts'
import { DATA, type Flags, openLog, readSettings } from './operate-config.ts'
import { note, print, type Shell } from './shell.ts'

const ROLES: { role: ServiceRole; about: string; example: string }[] = [
  { role: 'serve', about: 'Run the entire service in one process', example: 'assay serve --data /var/lib/assay' },
  {
    role: 'api',
    about: 'Run only the API; any number of processes can share a database',
    example: 'DATABASE_URL=postgres://… assay api --host 0.0.0.0',
  },
  {
    role: 'work',
    about: 'Run only a worker; any number of processes can share a database',
    example: 'DATABASE_URL=postgres://… ASSAY_GATEWAY_URL=http://10.0.0.2:4001 assay work',
  },
  {
    role: 'gateway',
    about: 'Run only the model gateway; any number of processes can share a database',
    example: 'DATABASE_URL=postgres://… assay gateway --host 10.0.0.5',
  },
]

const API_PORT = 'ASSAY_PORT, 4000'
/** Settings of the port of each role and their defaults, for the help. */
const PORT_SETTINGS: Record<ServiceRole, string> = {
  serve: API_PORT,
  api: API_PORT,
  work: 'ASSAY_WORK_PORT; without one, none is open',
  gateway: 'ASSAY_GATEWAY_PORT, 4001',
}

/** Returns the flags with the names of the role's settings: gateway and worker have their own settings for the port. */
function toRoleFlags(role: ServiceRole, { data, port, host }: Flags): Flags {
  const address = {
    serve: { port, host },
    api: { port, host },
    work: { workPort: port, host },
    gateway: { gatewayPort: port, gatewayHost: host },
  }[role]
  const setFlags = Object.entries({ data, ...address }).filter(([, value]) => value !== undefined)
  return Object.fromEntries(setFlags)
}

export function addServeCommands(assay: Command, shell: Shell): void {
  for (const { role, about, example } of ROLES) {
    withExample(
      withGlobals(assay.command(role))
        .description(about)
        .option(...DATA)
        .option(
          '--port <number>',
          `${role === 'work' ? 'Port for health and metrics' : 'Port to listen on'}; 0 for any free port (${PORT_SETTINGS[role]})`,
        )
        .option(
          '--host <address>',
          `Address to listen on (${role === 'gateway' ? 'ASSAY_GATEWAY_HOST' : 'ASSAY_HOST'}, 127.0.0.1)`,
        )
        .action((flags: Flags) => runAndExit(shell, role, toRoleFlags(role, flags))),
      example,
    )
  }
}

/**
 * Runs a role until it is stopped. Exits explicitly, because handles that a library left open must not keep a stopped
 * service alive.
 */
async function runAndExit(shell: Shell, role: ServiceRole, flags: Flags): Promise<void> {
  const code = await serve(shell, role, flags).then(
    () => 0,
    (error: unknown) => report(error, shell),
  )
  process.exit(code)
}

async function serve(shell: Shell, role: ServiceRole, flags: Flags): Promise<void> {
  const config = await readSettings(shell, flags)
  const isTerminal = shell.errors.isTTY
  const log = await openLog(shell, config, isTerminal ? 'warn' : config.logLevel)
  const stopRequested = waitForSignal()

  const { start } = await import('../src/main.ts')
  const running = await start(role, config, log)
  if (running.newKey) print(shell, 'The admin key of the workspace local, shown only once:', `  ${running.newKey}`)
  print(shell, running.url ? `assay ready ${running.url}` : 'assay ready')
  if (isTerminal)
    note(
      shell,
      `${running.url && role !== 'gateway' ? `The reference is at ${running.url}/docs. ` : ''}Ctrl-C stops it.`,
    )

  // Writes the compile cache now, because a service that is killed would otherwise lose it.
  flushCompileCache()
  await stopRequested
  log.info('stopping')
  if (isTerminal) note(shell, '', 'Stopping. Press Ctrl-C again to stop immediately.')
  await running.stop()
}

/** Signals within this time count as one: npm forwards a Ctrl-C that the terminal also sends to this process. */
const DUPLICATE_SIGNAL_MS = 250

/** Waits for a signal to stop. A second signal ends the process immediately. */
function waitForSignal(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  let firstAt: number | undefined
  const onSignal = () => {
    firstAt ??= performance.now()
    if (performance.now() - firstAt > DUPLICATE_SIGNAL_MS) process.exit(1)
    resolve()
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  return promise
}
