import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { connect } from '../../src/platform/db/db.ts'
import { migrate } from '../../src/platform/db/migrate.ts'
import { startPostgres } from '../../src/platform/postgres/postgres.ts'
import { toDatabaseUrl } from '../../src/store.ts'
import { databaseFolder } from './system-postgres.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    serverUrl: string
    /** Name of the migrated template database. */
    template: string
    /** A file with one line for each (operation, status) that a test has seen. */
    ledger: string
  }
}

/** Vitest calls this for each project. All projects of a run share one server, template and record, found by pid. */
const folder = join(databaseFolder(), `assay-tests-${process.pid}`)
const ledger = `${folder}-ledger`
const template = `assay_template_${process.pid}`

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startServer()
  if (!existsSync(ledger)) {
    writeFileSync(ledger, '')
    await makeTemplate(server.url)
  }
  project.provide('serverUrl', server.url)
  project.provide('template', template)
  project.provide('ledger', ledger)
  return async () => {
    await dropTemplate(server.url)
    rmSync(ledger, { force: true })
    await server.stop()
  }
}

/** Returns the configured server, or starts an embedded one. */
async function startServer(): Promise<{ url: string; stop: () => Promise<void> }> {
  const named = process.env.ASSAY_TEST_DATABASE_URL
  if (named) return { url: named, stop: async () => {} }
  const postgres = await startPostgres({ folder, durable: false })
  return {
    url: toDatabaseUrl(postgres.connection),
    stop: async () => {
      await postgres.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function makeTemplate(serverUrl: string): Promise<void> {
  await maintain(serverUrl, `create database ${template}`)
  const database = connect(at(serverUrl, template), { max: 1, onError: () => {} })
  await migrate(database.db)
  await database.close()
}

const dropTemplate = (serverUrl: string) => maintain(serverUrl, `drop database if exists ${template} with (force)`)

async function maintain(serverUrl: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: at(serverUrl, 'postgres') })
  await client.connect()
  await client.query(statement)
  await client.end()
}

function at(serverUrl: string, database: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${database}`
  return url.href
}
