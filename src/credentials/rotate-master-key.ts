import { type Db, transact } from '../platform/db/db.ts'
import {
  describeSource,
  type KeyLocation,
  type KeySource,
  MasterKeyRefused,
  readKeys,
  replaceKeyFile,
  resolveKeySource,
} from './key-file.ts'
import { requireActiveKey, requireHeldByAll } from './master-key.ts'
import { buildCheckValue, type MasterKey, newMasterKey, rewrap, SealBroken } from './seal.ts'
import {
  activateMasterKey,
  listMasterKeysInUse,
  lockMasterKeys,
  lockOtherWrappings,
  SEALED_TABLES,
  type SealedTable,
  setWrapping,
} from './sql.ts'

/** The steps of a rotation, in their order. A process may die after any of them. */
export const ROTATION_STEPS = ['both keys at hand', 'secrets rewrapped', 'committed', 'old key dropped'] as const
type RotationStep = (typeof ROTATION_STEPS)[number]

export type Rotation = {
  from: string
  to: string
  rewrapped: number
  /** Credentials and webhooks whose data key could not be opened. They and their master key are left unchanged. */
  broken: string[]
}

type RotateOptions = KeyLocation & {
  db: Db
  onStep?: (step: RotationStep) => void
  /** Rotates even when a running process cannot read the new key. */
  force?: boolean
}

/**
 * Replaces the master key while everything runs: with a generated one in the key file, or with the first one in
 * ASSAY_SECRET_KEY. If interrupted, the available keys still open every secret, and it can be called again.
 */
export async function rotateMasterKey(options: RotateOptions): Promise<Rotation> {
  const { db, onStep = () => {}, force = false, ...location } = options
  const source = resolveKeySource(location)
  const prepared = await prepareKey(db, source)
  if (!force) await requireHeldByAll(db, prepared.id)
  const rotation = await transact(db, async (tx) => {
    await lockMasterKeys(tx)
    const { keys, active } = await requireActiveKey(tx, source)
    const next = keys.find(({ id }) => id === prepared.id)
    // Another rotation ran meanwhile and has dropped the key already.
    if (!next) return undefined
    onStep('both keys at hand')
    if (next.id !== active.id) await activateMasterKey(tx, next.id, buildCheckValue(next))
    const outcome = await rewrapAll(tx, keys, next)
    onStep('secrets rewrapped')
    return { from: active.id, to: next.id, ...outcome }
  })
  if (!rotation) return rotateMasterKey(options)
  onStep('committed')
  if (source.kind === 'file') await dropUnusedKeys(db, source.path)
  onStep('old key dropped')
  return rotation
}

/**
 * Returns the next key. A generated one is in the key file, where every process can read it, before anything depends
 * on it.
 */
const prepareKey = (db: Db, source: KeySource): Promise<MasterKey> =>
  transact(db, async (tx) => {
    await lockMasterKeys(tx)
    const { keys, active } = await requireActiveKey(tx, source)
    return chooseNextKey(source, keys, active)
  })

/** Returns the next key, after writing a generated one to the key file. */
async function chooseNextKey(source: KeySource, keys: MasterKey[], active: MasterKey): Promise<MasterKey> {
  const [first = active] = keys
  // A first key in the file that is not active comes from an interrupted rotation.
  if (source.kind === 'variable' || first.id !== active.id) return first

  const generated = newMasterKey()
  await replaceKeyFile(source.path, [generated, ...keys])
  const [written] = await readKeys(source)
  if (written?.id !== generated.id)
    throw new MasterKeyRefused(`${describeSource(source)} was changed during the rotation.`)
  return generated
}

const LOWEST_ID = '00000000-0000-0000-0000-000000000000'

/** Encrypts the data keys of all secrets with the next master key. */
async function rewrapAll(tx: Db, keys: MasterKey[], next: MasterKey): Promise<{ rewrapped: number; broken: string[] }> {
  const broken: string[] = []
  let rewrapped = 0
  for (const table of SEALED_TABLES)
    for await (const row of iterateOtherWrappings(tx, table, next.id)) {
      const wrappedKey = rewrapRow(keys, next, row)
      if (!wrappedKey) broken.push(row.id)
      else {
        await setWrapping(tx, table, row.id, { masterKeyId: next.id, wrappedKey })
        rewrapped += 1
      }
    }
  return { rewrapped, broken }
}

/** Yields the rows of a table that are not yet sealed with this key, and locks them. */
async function* iterateOtherWrappings(tx: Db, table: SealedTable, masterKeyId: string): AsyncGenerator<WrappedRow> {
  let rows = await lockOtherWrappings(tx, table, masterKeyId, LOWEST_ID)
  for (let last = rows.at(-1); last; last = rows.at(-1)) {
    yield* rows
    rows = await lockOtherWrappings(tx, table, masterKeyId, last.id)
  }
}

type WrappedRow = Awaited<ReturnType<typeof lockOtherWrappings>>[number]

/** Encrypts the data key of a row with the new master key. Returns undefined for a damaged row, which is skipped. */
function rewrapRow(keys: MasterKey[], next: MasterKey, row: WrappedRow): Buffer | undefined {
  const from = keys.find(({ id }) => id === row.master_key_id)
  const { version, kind, provider } = row
  const context = { workspaceId: row.workspace_id, credentialId: row.id, version, kind, provider }
  try {
    return from && rewrap(from, next, context, row.wrapped_key)
  } catch (error) {
    if (error instanceof SealBroken) return undefined
    throw error
  }
}

/** Drops keys that the database no longer uses, under the lock: another rotation may have run meanwhile. */
const dropUnusedKeys = (db: Db, path: string): Promise<void> =>
  transact(db, async (tx) => {
    await lockMasterKeys(tx)
    const { keys, active } = await requireActiveKey(tx, { kind: 'file', path })
    const inUse = await listMasterKeysInUse(tx)
    const remaining = keys.filter(({ id }) => id === active.id || inUse.includes(id))
    if (remaining.length < keys.length) await replaceKeyFile(path, remaining)
  })
