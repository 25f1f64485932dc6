import { existsSync } from 'node:fs'
import { readFile, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { listLiveCapabilities } from '../catalog/capabilities.ts'
import { findSandboxChoice } from '../catalog/sandboxes.ts'
import { type Config, type ConfigEnvironment, ConfigError, readConfig, settingNames } from '../config.ts'
import { openBlobs } from '../platform/blobs/blobs.ts'
import { connect, type Database } from '../platform/db/db.ts'
import { errorText } from '../platform/errors.ts'
import { findPostmaster } from '../platform/postgres/postmaster.ts'
import { suggestName } from '../platform/suggestion.ts'
import { toDatabaseUrl } from '../store.ts'
import {
  type DataFolderState,
  type Diagnosis,
  diagnoseDataFolder,
  diagnoseDisk,
  diagnoseKeyFile,
  diagnoseNode,
  diagnosePostgres,
  diagnosePrograms,
  fail,
  findWatchesDiagnosis,
  note,
  pass,
} from './machine-checks.ts'
import { verifyChains } from './operate.ts'
import {
  blobsCheck,
  databaseCheck,
  masterKeyCheck,
  migrationsCheck,
  runChecks,
  type SystemCheck,
  workersCheck,
} from './service-checks.ts'

/**
 * Checks everything that the service needs on this machine. Starts nothing, migrates nothing, leaves nothing behind.
 */
export async function diagnose(environment: ConfigEnvironment): Promise<Diagnosis[]> {
  const { config, diagnoses } = examineSettings(environment)
  const serviceUrl = environment.ASSAY_URL || undefined
  const watches = await findWatchesDiagnosis()
  return [
    diagnoseNode(),
    await diagnosePostgres(config?.databaseUrl),
    ...diagnoses,
    ...(config ? await diagnoseInstallation(config, serviceUrl) : []),
    ...(watches ? [watches] : []),
    ...(await diagnosePrograms(environment.PATH ?? '')),
  ]
}

/** Checks the data folder, the database, the blobs and the service of these settings. */
async function diagnoseInstallation(config: Config, serviceUrl: string | undefined): Promise<Diagnosis[]> {
  const folder = await diagnoseDataFolder(config.dataFolder)
  const [disk, keyFile, blobs, service] = await Promise.all([
    diagnoseDisk(config.dataFolder),
    diagnoseKeyFile(config),
    diagnoseBlobs(config, folder.state),
    diagnoseService(serviceUrl ?? toServiceUrl(config)),
  ])
  const database = await diagnoseDatabase(config, { keyFile, isServing: service.ok })
  return [folder.diagnosis, disk, ...database, blobs, service]
}

/** Checks the blobs. Creates no files in the data folder of another user, because the service could not change them. */
async function diagnoseBlobs(config: Config, folderState: DataFolderState): Promise<Diagnosis> {
  if (folderState === 'absent') return pass('blobs', 'none yet')
  if (folderState === 'not ours')
    return note('blobs', 'not checked: the data folder belongs to another user', 'Fix the data folder first.')
  try {
    const folder = parseBlobFolder(config.blobs)
    if (folder && !existsSync(folder)) return pass('blobs', `${folder} does not exist yet; the first blob creates it`)
    return await diagnoseWithCheck(blobsCheck(openBlobs(config.blobs, join(config.dataFolder, 'spool'))))
  } catch (error) {
    return fail('blobs', errorText(error), 'Correct ASSAY_BLOBS.')
  }
}

function parseBlobFolder(blobs: string): string | undefined {
  if (blobs.startsWith('file://')) return fileURLToPath(blobs)
  return blobs.startsWith('file:') ? blobs.slice('file:'.length) : undefined
}

type KnownState = { keyFile: Diagnosis; isServing: boolean }

const OTHERS_NOT_CHECKED = 'Migrations, workers, the audit log and the master key of the database were not checked'

async function diagnoseDatabase(config: Config, { keyFile, isServing }: KnownState): Promise<Diagnosis[]> {
  try {
    await using database = await openRunningDatabase(config)
    if (!database) return [pass('database', `not running; it starts with assay serve. ${OTHERS_NOT_CHECKED}.`), keyFile]
    const databaseDiagnosis = await diagnoseWithCheck(databaseCheck(database))
    if (!databaseDiagnosis.ok)
      return [{ ...databaseDiagnosis, detail: `${databaseDiagnosis.detail}. ${OTHERS_NOT_CHECKED}` }, keyFile]

    const migrations = await diagnoseWithCheck(migrationsCheck(database))
    if (!migrations.ok) return [databaseDiagnosis, migrations, keyFile]
    const masterKey = keyFile.ok ? await diagnoseWithCheck(masterKeyCheck(database, config)) : keyFile
    // A stopped service needs no workers.
    const workers = { ...(await diagnoseWithCheck(workersCheck(database))), required: isServing }
    const audit = await diagnoseWithCheck(auditCheck(database))
    return [
      databaseDiagnosis,
      migrations,
      masterKey,
      audit,
      workers,
      ...(isServing ? [await diagnoseSandboxes(database)] : []),
    ]
  } catch (error) {
    return [fail('database', errorText(error), 'Run assay doctor as the user that runs the service.'), keyFile]
  }
}

/** Checks that a worker can run trials. Not required, because the service itself needs no sandbox. */
async function diagnoseSandboxes({ db }: Database): Promise<Diagnosis> {
  const capabilities = await listLiveCapabilities(db)
  const working = capabilities.filter(({ available }) => available)
  const workingText = working.map(({ sandbox, isolation }) => `${sandbox} (${isolation})`).join(', ')
  const broken = capabilities.find(({ available, sandbox }) => !available && isConfigured(sandbox))
  if (working.length > 0 && broken)
    return note(
      'sandboxes',
      `${workingText}; ${broken.sandbox}: ${broken.detail}`,
      'Correct the settings of that sandbox.',
    )
  if (working.length > 0) return pass('sandboxes', workingText)
  const reasons = capabilities.map(({ sandbox, detail }) => `${sandbox}: ${detail}`)
  const detail = `no worker can run a trial${reasons.length === 0 ? '' : `. ${reasons.join(' ')}`}`
  return note('sandboxes', detail, 'assay setup --yes bwrap, or start Docker; then restart the service.')
}

/** Returns true if an operator configured the sandbox. Other sandboxes are optional. */
const isConfigured = (sandbox: string): boolean => (findSandboxChoice(sandbox)?.requiredConfig ?? null) !== null

type OpenDatabase = Database & AsyncDisposable

/** Opens the database, unless it is an embedded one that is not running: the doctor must not start it. */
async function openRunningDatabase(config: Config): Promise<OpenDatabase | undefined> {
  const url = config.databaseUrl ?? (await findEmbeddedUrl(join(config.dataFolder, 'postgres')))
  if (!url) return undefined
  const database = connect(url, { max: 2, onError: () => {} })
  return { ...database, [Symbol.asyncDispose]: database.close }
}

async function findEmbeddedUrl(path: string): Promise<string | undefined> {
  if (!existsSync(path)) return undefined
  const real = await realpath(path)
  const toPath = (name: string): string => join(real, name)
  const files = { data: toPath('data'), password: toPath('password'), log: toPath('log'), lock: toPath('lock') }
  const server = await findPostmaster({ path: real, ...files })
  if (!server) return undefined
  const login = { user: 'assay', password: await readFile(files.password, 'utf8'), database: 'assay' }
  return toDatabaseUrl({ host: server.socketFolder, port: server.port, ...login })
}

const auditCheck = ({ db }: Database): SystemCheck => ({
  name: 'audit log',
  fix: 'Someone changed the database by hand. Compare with a backup: `assay audit verify` names the events.',
  run: async () => {
    const chains = await verifyChains(db)
    const broken = chains.filter(({ brokenAt }) => brokenAt !== null).map(({ login }) => login)
    if (broken.length > 0) throw new Error(`broken in the workspaces ${broken.join(', ')}`)
    return `unbroken in ${chains.length === 1 ? 'the one workspace' : `all ${chains.length} workspaces`}`
  },
})

const CHECK_TIMEOUT_MS = 20_000

/** Runs a check with a timeout, because of dead disks and unresponsive hosts. */
async function diagnoseWithCheck(check: SystemCheck): Promise<Diagnosis> {
  const timeout = new AbortController()
  const timedOut = wait(CHECK_TIMEOUT_MS, undefined, { signal: timeout.signal }).then(
    () => [{ name: check.name, ok: false, detail: `not finished within ${CHECK_TIMEOUT_MS / 1000} s`, fix: check.fix }],
    () => [],
  )
  const [finding] = await Promise.race([runChecks([check]), timedOut])
  timeout.abort()
  return finding ? { ...finding, required: true } : fail(check.name, 'not checked', check.fix)
}

const Readiness = z.object({ ok: z.boolean() })
const ANSWER_TIMEOUT_MS = 5000

async function diagnoseService(url: string | undefined): Promise<Diagnosis> {
  if (!url) return note('service', 'not checked: it listens on any free port', 'See the line `assay ready`.')
  const answer = await askReadiness(`${url}/readyz`)
  if (answer === 'silent') return note('service', `nothing answers at ${url}`, 'Start it with assay serve.')
  if (answer === 'foreign') return fail('service', `another program answers at ${url}`, 'Choose another ASSAY_PORT.')
  if (answer.ok) return pass('service', `ready at ${url}`)
  return fail('service', `answers at ${url} but is not ready`, 'See the lines above and its log.')
}

async function askReadiness(url: string): Promise<z.infer<typeof Readiness> | 'silent' | 'foreign'> {
  try {
    const response = await fetch(url, { redirect: 'manual', signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })
    const readiness = Readiness.safeParse(await response.json().catch(() => undefined))
    return readiness.success ? readiness.data : 'foreign'
  } catch {
    return 'silent'
  }
}

/** Returns the address of the service. A wildcard address becomes loopback. */
function toServiceUrl({ baseUrl, host, port }: Config): string | undefined {
  if (baseUrl) return baseUrl
  if (port === 0) return undefined
  const name = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }[host] ?? (host.includes(':') ? `[${host}]` : host)
  return `http://${name}:${port}`
}

/**
 * Variables of the command line, of the tests and of providers. They are valid, although the service does not read
 * them.
 */
const OTHER_VARIABLES = /^ASSAY_(URL|KEY|REQUIRE|TEST_\w+|GATEWAY_UPSTREAM_\w+)$/

function examineSettings(environment: ConfigEnvironment): {
  config: Config | undefined
  diagnoses: Diagnosis[]
} {
  const unknown = listUnknownSettings(environment).map(describeUnknownSetting)
  try {
    const config = readConfig(environment)
    return { config, diagnoses: [pass('settings', 'valid'), ...unknown] }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const lines = error.message.split('\n')
    const fix = 'Correct the setting and run the check again: most other checks need valid settings.'
    return { config: undefined, diagnoses: [...lines.map((line) => fail('settings', line, fix)), ...unknown] }
  }
}

const listUnknownSettings = (environment: ConfigEnvironment): string[] =>
  Object.keys(environment).filter(
    (name) => name.startsWith('ASSAY_') && !settingNames.includes(name) && !OTHER_VARIABLES.test(name),
  )

function describeUnknownSetting(name: string): Diagnosis {
  const knownNames = settingNames.filter((each) => each.startsWith('ASSAY_'))
  const detail = `${name} is not a setting of this version and has no effect`
  return note('settings', detail, `Remove it.${suggestName(name, knownNames)}`)
}
