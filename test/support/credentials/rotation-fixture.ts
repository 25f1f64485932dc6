import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type CredentialDeps,
  createCredential,
  readCredential,
  updateCredential,
} from '../../../src/credentials/credentials.ts'
import { readKeyFile } from '../../../src/credentials/key-file.ts'
import { openKeyring } from '../../../src/credentials/master-key.ts'
import { openSecret } from '../../../src/credentials/secrets.ts'
import { createOutbound } from '../../../src/platform/outbound/outbound.ts'
import { createWorkspace } from '../../../src/workspaces/workspaces.ts'
import { testDatabase } from '../database.ts'

/** A database and data folder in which each process has its own keyring. The value of a secret is the id or name of its credential. */
export async function openRotationFixture(secretKey?: string) {
  const database = await testDatabase({ max: 20 })
  const { db, pool } = database
  const dataFolder = await mkdtemp(join(tmpdir(), 'assay-rotate-'))
  const place = { db, dataFolder }
  await openKeyring({ ...place, secretKey })
  const { row } = await createWorkspace(db, { login: 'acme', name: 'Acme', kind: 'org' }, { actor: 'system' })
  const by = { workspaceId: row.id, actor: 'system' }

  return {
    place,
    workspaceId: row.id,
    async process(key = secretKey): Promise<CredentialDeps> {
      const keyring = await openKeyring({ ...place, secretKey: key })
      return { db, keyring, environment: {}, upstreams: {}, outbound: createOutbound() }
    },
    async store(tools: CredentialDeps, count: number): Promise<string[]> {
      const ids: string[] = []
      for (let made = 0; made < count; made++) {
        const options = { kind: 'model', provider: 'openai', name: 'key', secret: { apiKey: 'not-yet-known' } } as const
        const credential = await createCredential(tools, by, options)
        await updateCredential(tools, by, credential, { secret: { apiKey: credential.id } })
        ids.push(credential.id)
      }
      return ids
    },
    async replace(tools: CredentialDeps, id: string): Promise<void> {
      await updateCredential(tools, by, await readCredential(tools, row.id, id), { secret: { apiKey: id } })
    },
    open: (tools: CredentialDeps, ids: string[]) =>
      Promise.all(ids.map(async (id) => (await openSecret(tools, row.id, id))?.secret.apiKey)),
    rows: () =>
      db.selectFrom('credentials').select(['master_key_id', 'wrapped_key', 'ciphertext']).orderBy('id').execute(),
    keyFile: async () => (await readKeyFile(join(dataFolder, 'secret.key'))) ?? [],
    activeKey: async () => (await pool.query('select id from master_keys where active')).rows[0]?.id,
    underRetiredKeys: async () =>
      (await pool.query('select c.id from credentials c join master_keys m on m.id = master_key_id where not active'))
        .rows,
    /** Counts processes that wait for a lock. */
    waiting: async () =>
      (await pool.query(`select 1 from pg_locks where locktype = 'advisory' and not granted`)).rowCount ?? 0,
    async [Symbol.asyncDispose]() {
      await database[Symbol.asyncDispose]()
      await rm(dataFolder, { recursive: true, force: true })
    },
  }
}
