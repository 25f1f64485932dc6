import { Socket } from 'node:net'
import { Client } from 'pg'
import { codeOf } from '../errors.ts'
import { type Postmaster, waitUntil } from './postmaster.ts'
import { PostgresUnavailable } from './unavailable.ts'

/** Fits the `ClientConfig` and `PoolConfig` of pg. */
export type PostgresConnection = { host: string; port: number; user: string; password: string; database: string }

/** A connection held from start to stop. It shows other processes that this one uses the server, even with empty pools. */
export type PresenceSession = { connection: PostgresConnection; client: Client; socket: Socket; lost: Promise<void> }

const PRESENCE_NAME = 'assay presence'
const CONNECT_TIMEOUT_MS = 5_000
/** Time for the backends of closed connections to exit; until then they are listed. */
const CLOSING_TIMEOUT_MS = 1_000

const DUPLICATE_DATABASE = '42P04'

/** Errors that a retry cannot fix, by SQLSTATE or code of Node. */
const PERMANENT_ERRORS: Record<string, { reason: string; advice: string }> = {
  '28P01': { reason: 'it has another password than the one in the folder', advice: 'Restore the password file' },
  EACCES: { reason: 'it belongs to another user', advice: 'Start Assay as that user' },
  '53100': { reason: 'the disk is full', advice: 'Free some space' },
}

/** Opens a session. Returns the reason as text if the server is not ready or has just ended; the caller retries. */
export async function trySession(server: Postmaster, password: string): Promise<PresenceSession | string> {
  const connection = { host: server.socketFolder, port: server.port, user: 'assay', password, database: 'assay' }
  try {
    return await openSession(connection)
  } catch (error) {
    const refusal = PERMANENT_ERRORS[codeOf(error)]
    if (refusal === undefined) return String(error)
    throw new PostgresUnavailable(
      `PostgreSQL runs in ${server.socketFolder} (process ${server.pid}) but ${refusal.reason}.`,
      refusal.advice,
    )
  }
}

/** Connects to the database `postgres`: a session in `assay` would prevent copying that database as a template. */
async function openSession(connection: PostgresConnection): Promise<PresenceSession> {
  const socket = new Socket()
  const client = new Client({
    ...connection,
    database: 'postgres',
    application_name: PRESENCE_NAME,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    ssl: false,
    stream: () => socket,
  })
  client.on('error', () => undefined) // The event `end` follows.
  const lost = new Promise<void>((resolve) => client.once('end', () => resolve()))
  try {
    await client.connect()
    await ensureDatabase(client, connection.database)
  } catch (error) {
    socket.destroy()
    throw error
  }
  socket.unref() // A process that does not call `stop` can still exit.
  return { connection, client, socket, lost }
}

async function ensureDatabase(client: Client, name: string): Promise<void> {
  const existing = await client.query('select from pg_database where datname = $1', [name])
  if (existing.rowCount === 1) return
  await client.query(`create database ${client.escapeIdentifier(name)}`).catch((error) => {
    if (error.code !== DUPLICATE_DATABASE) throw error
  })
}

/** Returns true if no other process is connected. Call under the lock, or one may connect right afterwards. */
export async function isOnlyProcess({ client }: PresenceSession): Promise<boolean> {
  const isAlone = await waitUntil(CLOSING_TIMEOUT_MS, async () => {
    const others = await listOtherSessions(client)
    if (others.length === 0) return true
    if (others.includes(PRESENCE_NAME)) return false
    return undefined // The connections may be closing, so `waitUntil` asks again.
  })
  return isAlone ?? false
}

async function listOtherSessions(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ application_name: string }>(
    `select application_name from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`,
  )
  return rows.map((row) => row.application_name)
}
