import { hostname } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import type { Db } from '../platform/db/db.ts'
import { newId } from '../platform/ids.ts'
import type { JobLog } from '../platform/jobs/jobs.ts'
import { MasterKeyRefused } from './key-text.ts'
import type { Keyring } from './master-key.ts'
import { deleteKeyHolder, findActiveMasterKey, listKeyHoldersWithout, upsertKeyHolder } from './sql.ts'

const ANNOUNCE_MS = 2000
/** A process not seen for this long is considered dead. */
const ALIVE_SECONDS = 30
/** Long enough for every process to read its key file again, also on a busy machine. */
const WAIT_MS = 10_000

type AnnounceOptions = { db: Db; keyring: Pick<Keyring, 'keyIds'>; log: JobLog; everyMs?: number }

export type AnnouncedKeys = {
  /** False once this process has noticed that the key in use is not among its keys. It must not take on work then. */
  holdsActiveKey(): boolean
  stop(): Promise<void>
}

/**
 * Records which master keys this process can read, for as long as it runs. A rotation waits until every process can read
 * the new key. Logs an error when the key in use is not among them.
 */
export function announceKeys({ db, keyring, log, everyMs = ANNOUNCE_MS }: AnnounceOptions): AnnouncedKeys {
  const holder = { id: newId(), host: hostname(), processId: process.pid }
  let missing: string | undefined
  const announce = async (): Promise<void> => {
    const masterKeyIds = await keyring.keyIds()
    await upsertKeyHolder(db, { ...holder, masterKeyIds })
    const active = (await findActiveMasterKey(db))?.id
    const lacked = active !== undefined && !masterKeyIds.includes(active) ? active : undefined
    if (lacked !== undefined && lacked !== missing)
      log.error({ masterKeyId: lacked }, 'this process does not hold the master key in use; restart it with that key')
    missing = lacked
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
      await deleteKeyHolder(db, holder.id).catch(() => undefined) // it expires by itself
    },
  }
}

/** Waits until every running process can read the key. Throws MasterKeyRefused, naming those that cannot. */
export async function requireHeldByAll(db: Db, masterKeyId: string, waitMs = WAIT_MS): Promise<void> {
  for (const deadline = performance.now() + waitMs; ; ) {
    const lacking = await listKeyHoldersWithout(db, masterKeyId, ALIVE_SECONDS)
    if (lacking.length === 0) return
    if (performance.now() > deadline) throw new MasterKeyRefused(lackedBy(lacking))
    await pause(RECHECK_MS)
  }
}

const RECHECK_MS = 200

const lackedBy = (lacking: { host: string; processId: number }[]): string => {
  const processes = lacking.map(({ host, processId }) => `process ${processId} on ${host}`).join(', ')
  return `The new master key cannot be read by ${processes}, which would then open no credential. Give each of them both keys ("new,old") or the same key file and restart it, or stop it; --force rotates all the same.`
}
