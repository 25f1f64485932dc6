import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { connect } from '../../src/platform/db/db.ts'
import { migrate } from '../../src/platform/db/migrate.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    serverUrl: string
    /** A file: one line for each (operation, status) that was seen. */
    ledger: string
  }
}

const TEMPLATE = 'assay_template'

/** One server for the whole run: the one that is named, or an embedded one of our own. */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const server = await startServer()
  await makeTemplate(server.url)
  project.provide('serverUrl', server.url)
  const ledger = join(mkdtempSync(join(tmpdir(), 'assay-ledger-')), 'pairs')
  writeFileSync(ledger, '')
  project.provide('ledger', ledger)
  return server.stop
}

async function startServer(): Promise<{ url: string; stop?: () => Promise<void> }> {
  const named = process.env.ASSAY_TEST_DATABASE_URL
  if (named) return { url: named }
  throw new Error('pending')
}

async function makeTemplate(serverUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl })
  await client.connect()
  await client.query(`drop database if exists ${TEMPLATE} with (force)`)
  await client.query(`create database ${TEMPLATE}`)
  await client.end()

  const url = new URL(serverUrl)
  url.pathname = `/${TEMPLATE}`
  const database = connect(url.href, { max: 1, onError: () => {} })
  await migrate(database.db)
  await database.close()
}
