import { hostname } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { type Db, transact } from '../platform/db/db.ts'
import { newId } from '../platform/ids.ts'
import type { JobLog } from '../platform/jobs/jobs.ts'
import { Problem } from '../platform/problem.ts'
import {
  createKeyFile,
  describeSource,
  type KeyLocation,
  type KeySource,
  MasterKeyRefused,
  readKeys,
  resolveKeySource,
} from './key-file.ts'
import { masterKeyMissing } from './schema.ts'
import {
  buildCheckValue,
  type MasterKey,
  matchesCheckValue,
  newMasterKey,
  open,
  type Sealed,
  type Secret,
  type SecretContext,
  seal,
} from './seal.ts'
import {
  activateMasterKey,
  deleteDeadKeyHolders,
  deleteKeyHolder,
  findActiveMasterKey,
  listKeyHoldersWithout,
  listMasterKeys,
  lockMasterKeys,
  shareMasterKeys,
  upsertKeyHolder,
} from './sql.ts'

/**
 * Thrown when a secret is sealed with a key that this process does not have, not even after reading the source again. A
 * workspace gets a 503 that names no key; `announceKeys` logs which one is missing.
 */
export class MasterKeyMissing extends Problem {
  constructor(
    message = 'This process does not hold the master key in use. The operator has to restart it with that key.',
  ) {
    super(masterKeyMissing, message)
    this.name = 'MasterKeyMissing'
  }
}

export type Keyring = {
  /**
   * Seals with the active key, in the transaction that stores the result: until it ends no rotation can retire that key.
   * Call it before any credential is locked; a rotation takes its locks in that order too.
   */
  sealer(tx: Db): Promise<(context: SecretContext, secret: Secret) => Sealed>
  /** Throws SealBroken, or MasterKeyMissing. */
  open(context: SecretContext, sealed: Sealed): Promise<Secret>
  /** Throws MasterKeyMissing when this process cannot seal and open with the key in use. */
  requireActive(db: Db): Promise<void>
  /** Ids of the keys that this process can read now. */
  keyIds(): Promise<string[]>
}

/**
 * Opens the keys with which the database's secrets are sealed. Throws MasterKeyRefused if they are not available. An
 * empty database gets its key here: the first of the variable, else the first of the key file, else a new one, which is
 * written to disk before the database refers to it.
 */
export const openKeyring = ({ db, ...location }: KeyLocation & { db: Db }): Promise<Keyring> =>
  transact(db, async (tx) => {
    const source = resolveKeySource(location)
    await lockMasterKeys(tx)
    if (!(await hasMasterKey(tx))) {
      const first = await createFirstKey(source)
      await activateMasterKey(tx, first.id, buildCheckValue(first))
    }
    const { keys } = await requireActiveKey(tx, source)
    return createKeyring(source, keys)
  })

/** Returns false for a database that no process with credential storage has opened yet. */
export const hasMasterKey = async (db: Db): Promise<boolean> => (await listMasterKeys(db)).length > 0

async function createFirstKey(source: KeySource): Promise<MasterKey> {
  if (source.kind === 'file') await createKeyFile(source.path, newMasterKey())
  // The key is read back, because another process may have created the file first.
  const [first] = await readKeys(source)
  if (!first) throw new MasterKeyRefused(`${describeSource(source)} was removed while Assay started.`)
  return first
}

/** Returns the keys of the source and the active one, which must be among them. Call under the lock of the master keys. */
export async function requireActiveKey(tx: Db, source: KeySource): Promise<{ keys: MasterKey[]; active: MasterKey }> {
  const row = (await listMasterKeys(tx)).find(({ active }) => active)
  if (!row) throw new MasterKeyRefused('The database has no active master key.')

  const keys = await readKeys(source)
  const active = keys.find(({ id }) => id === row.id)
  if (!active) throw new MasterKeyRefused(describeMissingKey(row.id, source, keys))
  if (!matchesCheckValue(active, row.check_value)) {
    throw new MasterKeyRefused(`The check value of master key ${row.id} was changed in the database. Restore a backup.`)
  }
  return { keys, active }
}

const describeMissingKey = (id: string, source: KeySource, keys: MasterKey[]): string => {
  const beginning = `The stored credentials are sealed with master key ${id}`
  if (source.kind === 'variable') {
    return `${beginning}, which ASSAY_SECRET_KEY does not contain. Set it to that key, or to "new,old" to rotate.`
  }
  const keyFileState = keys.length === 0 ? 'does not exist' : 'contains another key'
  return `${beginning}, and ${source.path} ${keyFileState}. Restore that key file, or set ASSAY_SECRET_KEY.`
}

function createKeyring(source: KeySource, keys: MasterKey[]): Keyring {
  const knownKeys = new Map(keys.map((key) => [key.id, key]))
  /** Reads the source again for an unknown key, which another process has rotated to. */
  const readKey = async (id: string): Promise<MasterKey> => {
    if (!knownKeys.has(id)) for (const key of await readKeys(source)) knownKeys.set(key.id, key)
    const key = knownKeys.get(id)
    if (!key) throw new MasterKeyMissing()
    return key
  }
  return {
    async sealer(tx) {
      await shareMasterKeys(tx)
      const active = await findActiveMasterKey(tx)
      if (!active) throw new MasterKeyRefused('The database has no active master key.')
      const key = await readKey(active.id)
      return (context, secret) => seal(key, context, secret)
    },
    open: async (context, sealed) => open(await readKey(sealed.masterKeyId), context, sealed),
    async requireActive(db) {
      const active = await findActiveMasterKey(db)
      if (active) await readKey(active.id)
    },
    keyIds: async () => (await readKeys(source)).map(({ id }) => id),
  }
}

const ANNOUNCE_INTERVAL_MS = 2000
/** A process not seen for this long is considered dead. */
const ALIVE_SECONDS = 30
/** Maximum wait until every process has read its key file again, also on a busy machine. */
const KEY_READ_TIMEOUT_MS = 10_000

type AnnounceOptions = { db: Db; keyring: Pick<Keyring, 'keyIds'>; log: JobLog; everyMs?: number }

type AnnouncedKeys = {
  /** False once this process has noticed that the key in use is not among its keys. It must not take on work then. */
  holdsActiveKey(): boolean
  stop(): Promise<void>
}

/**
 * Records which master keys this process can read, for as long as it runs. A rotation waits until every process can read
 * the new key. Logs an error when the key in use is not among them.
 */
export function announceKeys({ db, keyring, log, everyMs = ANNOUNCE_INTERVAL_MS }: AnnounceOptions): AnnouncedKeys {
  const announcedProcess = { id: newId(), host: hostname(), processId: process.pid }
  /** Id of the key in use, if this process does not have it. */
  let missing: string | undefined
  const announce = async (): Promise<void> => {
    const masterKeyIds = await keyring.keyIds()
    await upsertKeyHolder(db, { ...announcedProcess, masterKeyIds })
    const active = (await findActiveMasterKey(db))?.id
    const missingKeyId = active !== undefined && !masterKeyIds.includes(active) ? active : undefined
    if (missingKeyId !== undefined && missingKeyId !== missing)
      log.error(
        { masterKeyId: missingKeyId },
        'this process does not hold the master key in use; restart it with that key',
      )
    missing = missingKeyId
  }
  const announceOrWarn = () =>
    announce().catch((error: unknown) => log.warn({ error }, 'announcing master keys failed'))
  let current = announceOrWarn()
  const timer = setInterval(() => {
    current = current.then(announceOrWarn)
  }, everyMs)
  return {
    holdsActiveKey: () => missing === undefined,
    async stop() {
      clearInterval(timer)
      await current
      await deleteKeyHolder(db, announcedProcess.id).catch(() => undefined) // The entry expires by itself.
    },
  }
}

/** Waits until every running process can read the key. Throws MasterKeyRefused, naming those that cannot. */
export async function requireHeldByAll(db: Db, masterKeyId: string): Promise<void> {
  const deadline = performance.now() + KEY_READ_TIMEOUT_MS
  for (;;) {
    await deleteDeadKeyHolders(db, ALIVE_SECONDS)
    const processesWithoutKey = await listKeyHoldersWithout(db, masterKeyId)
    if (processesWithoutKey.length === 0) return
    if (performance.now() > deadline) throw new MasterKeyRefused(describeProcessesWithoutKey(processesWithoutKey))
    await pause(RECHECK_MS)
  }
}

const RECHECK_MS = 200

const describeProcessesWithoutKey = (processesWithoutKey: { host: string; processId: number }[]): string => {
  const processes = processesWithoutKey.map(({ host, processId }) => `process ${processId} on ${host}`).join(', ')
  return `The new master key cannot be read by ${processes}, which would then open no credential. Give each of them both keys ("new,old") or the same key file and restart it, or stop it; --force rotates all the same.`
}
