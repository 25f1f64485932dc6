import { listLiveCapabilities } from '../catalog/capabilities.ts'
import type { CredentialDeps } from '../credentials/credentials.ts'
import { resolveKeySource } from '../credentials/key-file.ts'
import { hasMasterKey, type Keyring, requireActiveKey } from '../credentials/master-key.ts'
import { checkStoredSecrets } from '../credentials/secrets.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import { describeClockSkew, isClockWrong, measureClockSkew } from '../platform/db/clock.ts'
import type { Database, Db } from '../platform/db/db.ts'
import {
  isPostgresTooOld,
  listPendingMigrations,
  POSTGRES_VERSION_MIN,
  readServerVersion,
} from '../platform/db/migrate.ts'
import { errorText } from '../platform/errors.ts'
import { countLiveWorkers } from '../platform/jobs/jobs.ts'
import type { Log } from '../platform/log.ts'
import type { CheckResult, MasterKeySettings } from './machine-checks.ts'

/** A check of one part of the system. `run` returns a detail to show, or throws an error with the problem. */
export type SystemCheck = { name: string; fix: string; run: () => Promise<string> }

/** Runs all checks concurrently. One that throws has failed; the others still run. */
export const runChecks = (checks: SystemCheck[]): Promise<CheckResult[]> =>
  Promise.all(
    checks.map(async ({ name, fix, run }) => {
      try {
        return { name, ok: true, detail: await run(), fix: null }
      } catch (error) {
        return { name, ok: false, detail: errorText(error), fix }
      }
    }),
  )

/** Maximum age of the last heartbeat of a live worker. */
export const HEARTBEAT_AGE_MAX_SECONDS = 60

export const databaseCheck = ({ db }: Database): SystemCheck => ({
  name: 'database',
  fix: 'Start PostgreSQL, or correct DATABASE_URL.',
  run: async () => {
    const version = await readServerVersion(db)
    if (isPostgresTooOld(version))
      throw new Error(`This is PostgreSQL ${version}; Assay needs ${POSTGRES_VERSION_MIN} or newer.`)
    return `PostgreSQL ${version}`
  },
})

export const migrationsCheck = ({ db }: Database): SystemCheck => ({
  name: 'migrations',
  fix: 'Run assay migrate, or restart the service.',
  run: async () => {
    const pending = await listPendingMigrations(db)
    if (pending.length > 0) throw new Error(`missing: ${pending.join(', ')}`)
    return 'complete'
  },
})

const clockCheck = ({ db }: Database): SystemCheck => ({
  name: 'clock',
  fix: 'Set the clock of this machine or of the database server, for example with NTP. No jobs are started until then.',
  run: async () => {
    const skewMs = await measureClockSkew(db)
    if (isClockWrong(skewMs)) throw new Error(describeClockSkew(skewMs))
    return 'agrees with the database'
  },
})

export const blobsCheck = (blobs: Blobs): SystemCheck => ({
  name: 'blobs',
  fix: 'Make the folder or bucket in ASSAY_BLOBS writable, or name another.',
  run: async () => {
    await blobs.check()
    return 'written, read back and removed'
  },
})

export const workersCheck = ({ db }: Database): SystemCheck => ({
  name: 'workers',
  fix: 'Start assay serve or assay work.',
  run: async () => {
    const alive = await countLiveWorkers(db, HEARTBEAT_AGE_MAX_SECONDS)
    if (alive === 0) throw new Error(`none was seen within ${HEARTBEAT_AGE_MAX_SECONDS} s`)
    return `${alive} alive`
  },
})

/** Checks the key that the running process holds. It does not read the key file, which the process no longer needs. */
const heldKeyCheck = ({ db }: Database, keyring: Keyring | undefined): SystemCheck => ({
  name: 'master key',
  fix: 'Restart this process with the master key in use.',
  run: async () => {
    await keyring?.requireActive(db)
    return keyring ? 'fits the database' : 'not needed: credential storage is off'
  },
})

export const masterKeyCheck = ({ db }: Database, settings: MasterKeySettings): SystemCheck => ({
  name: 'master key',
  fix: 'Put the key file back from a copy, or set ASSAY_SECRET_KEY to the key.',
  run: async () => {
    if (!settings.credentialStorage) return 'not needed: credential storage is off'
    if (!(await hasMasterKey(db))) return 'does not exist yet; the first start creates it'
    const { active } = await requireActiveKey(db, resolveKeySource(settings))
    return `${active.id} fits the database`
  },
})

type HealthDeps = { db: Db; credentials: CredentialDeps; log: Log; checkService: () => Promise<CheckResult[]> }

const ASK_OPERATOR = 'Ask the operator: the log of the service has the reason.'

/**
 * Checks what a workspace depends on: the service, its own credentials and the available sandboxes. Findings about the
 * service name no key, path, address or version, because every workspace reads them; the log has the details.
 */
export async function checkWorkspace(deps: HealthDeps, workspaceId: string): Promise<CheckResult[]> {
  const { db, credentials, log, checkService } = deps
  const service = await checkService()
  for (const finding of service) if (!finding.ok) log.warn({ finding }, 'a health check failed')
  const workspaceResults = await runChecks([credentialsCheck(credentials, workspaceId), sandboxesCheck(db)])
  return [...service.map(hideDetails), ...workspaceResults]
}

const hideDetails = ({ name, ok }: CheckResult): CheckResult => ({
  name,
  ok,
  detail: ok ? 'works' : 'does not work',
  fix: ok ? null : ASK_OPERATOR,
})

const credentialsCheck = (deps: CredentialDeps, workspaceId: string): SystemCheck => ({
  name: 'credentials',
  fix: 'Send the secret again with PATCH. POST …/credentials/{id}/check then asks the provider whether it accepts it.',
  run: async () => {
    const { stored, unreadable } = await checkStoredSecrets(deps, workspaceId)
    if (unreadable.length > 0)
      throw new Error(`${unreadable.length} of ${stored} stored secrets cannot be opened: ${unreadable.join(', ')}`)
    return stored === 0 ? 'none stored' : `${stored} stored, all can be opened`
  },
})

const sandboxesCheck = (db: Db): SystemCheck => ({
  name: 'sandboxes',
  fix: 'Ask the operator to start a worker whose sandbox works (assay doctor).',
  run: async () => {
    const working = (await listLiveCapabilities(db)).filter(({ available }) => available)
    if (working.length === 0) throw new Error('no worker can run a trial')
    return [...new Set(working.map(({ sandbox, isolation }) => `${sandbox} (${isolation})`))].join(', ')
  },
})

/** Checks that must pass before requests can be served. */
export const readinessChecks = ({
  database,
  keyring,
}: {
  database: Database
  keyring: Keyring | undefined
}): SystemCheck[] => [
  databaseCheck(database),
  migrationsCheck(database),
  heldKeyCheck(database, keyring),
  clockCheck(database),
]
