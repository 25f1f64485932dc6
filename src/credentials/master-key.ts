import { type Db, transact } from '../platform/db/db.ts'
import { Problem } from '../platform/problem.ts'
import { createKeyFile } from './key-file.ts'
import { describeSource, type KeyLocation, type KeySource, readKeys, resolveKeySource } from './key-source.ts'
import { MasterKeyRefused } from './key-text.ts'
import { masterKeyMissing } from './schema.ts'
import {
  checkValue,
  fitsCheckValue,
  type MasterKey,
  newMasterKey,
  open,
  type Sealed,
  type Secret,
  type SecretContext,
  seal,
} from './seal.ts'
import { activateMasterKey, findActiveMasterKey, listMasterKeys, lockMasterKeys, shareMasterKeys } from './sql.ts'

/**
 * A secret is sealed with a key that this process does not hold, not even after reading the source again. A workspace
 * sees it as a 503, which names no key: `announceKeys` logs which one is missing.
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
      const first = await firstKey(source)
      await activateMasterKey(tx, first.id, checkValue(first))
    }
    const { keys } = await holdActiveKey(tx, source)
    return keyring(source, keys)
  })

/** Returns false for a database that no process with credential storage has opened yet. */
export const hasMasterKey = async (db: Db): Promise<boolean> => (await listMasterKeys(db)).length > 0

async function firstKey(source: KeySource): Promise<MasterKey> {
  if (source.kind === 'file') await createKeyFile(source.path, newMasterKey())
  // Read back, because another process may have created the file first.
  const [first] = await readKeys(source)
  if (!first) throw new MasterKeyRefused(`${describeSource(source)} was removed while Assay started.`)
  return first
}

/** Returns the keys of the source and the active one, which must be among them. Call under the lock of the master keys. */
export async function holdActiveKey(tx: Db, source: KeySource): Promise<{ keys: MasterKey[]; active: MasterKey }> {
  const row = (await listMasterKeys(tx)).find(({ active }) => active)
  if (!row) throw new MasterKeyRefused('The database has no active master key.')

  const keys = await readKeys(source)
  const active = keys.find(({ id }) => id === row.id)
  if (!active) throw new MasterKeyRefused(notHeld(row.id, source, keys))
  if (!fitsCheckValue(active, row.check_value)) {
    throw new MasterKeyRefused(`The check value of master key ${row.id} was changed in the database. Restore a backup.`)
  }
  return { keys, active }
}

const notHeld = (id: string, source: KeySource, keys: MasterKey[]): string => {
  const sealed = `The stored credentials are sealed with master key ${id}`
  if (source.kind === 'variable') {
    return `${sealed}, which ASSAY_SECRET_KEY does not contain. Set it to that key, or to "new,old" to rotate.`
  }
  const lack = keys.length === 0 ? 'does not exist' : 'contains another key'
  return `${sealed}, and ${source.path} ${lack}. Restore that key file, or set ASSAY_SECRET_KEY.`
}

function keyring(source: KeySource, keys: MasterKey[]): Keyring {
  const held = new Map(keys.map((key) => [key.id, key]))
  /** Reads the source again for an unknown key, which another process has rotated to. */
  const readKey = async (id: string): Promise<MasterKey> => {
    if (!held.has(id)) for (const key of await readKeys(source)) held.set(key.id, key)
    const key = held.get(id)
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
