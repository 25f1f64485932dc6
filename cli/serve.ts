import type { Command } from 'commander'
import { type Config, ConfigError, type Environment, readConfig } from '../src/config.ts'
import type { Role } from '../src/main.ts'
import { createLog, type Log } from '../src/platform/log.ts'

type Flags = { data?: string; port?: string; host?: string }

const ROLES: { role: Role; about: string }[] = [
  { role: 'serve', about: 'Run the whole service in one process' },
  { role: 'api', about: 'Run only the API; any number of them share one database' },
  { role: 'work', about: 'Run only a worker; any number of them share one database' },
]

export function addServeCommands(program: Command): void {
  for (const { role, about } of ROLES) {
    program
      .command(role)
      .description(about)
      .option('--data <folder>', 'where data lives (ASSAY_DATA, ./.assay)')
      .option('--port <number>', 'where to listen; 0 is any free port (ASSAY_PORT, 4000)')
      .option('--host <address>', 'on which address (ASSAY_HOST, 127.0.0.1)')
      .action((flags: Flags) => run(role, flags))
  }
}

async function run(role: Role, flags: Flags): Promise<void> {
  const config = configOf(flags)
  const log = createLog(config.logLevel)
  const { start } = await import('../src/main.ts')
  const running = await start(role, config, log).catch((error: unknown) => giveUp(error, log))
  if (running.newKey) console.log(`The admin key of the workspace local, shown this once:\n  ${running.newKey}`)
  console.log(running.url ? `assay ready ${running.url}` : 'assay ready')
  stopOnSignal(running.stop, log)
}

/** Flags win over the environment. */
export function configOf(flags: Flags): Config {
  const flagged: Environment = { ASSAY_DATA: flags.data, ASSAY_PORT: flags.port, ASSAY_HOST: flags.host }
  const given = Object.entries(flagged).filter(([, value]) => value !== undefined)
  try {
    return readConfig({ ...process.env, ...Object.fromEntries(given) })
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    console.error(error.message)
    process.exit(2)
  }
}

function giveUp(error: unknown, log: Log): never {
  console.error(error instanceof Error ? error.message : String(error))
  log.debug({ error }, 'could not start')
  process.exit(1)
}

/** The first signal lets work end; a second one does not wait. */
function stopOnSignal(stop: () => Promise<void>, log: Log): void {
  let stopping = false
  const onSignal = () => {
    if (stopping) process.exit(1)
    stopping = true
    log.info('stopping')
    stop().then(
      () => process.exit(0),
      (error: unknown) => giveUp(error, log),
    )
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
}
