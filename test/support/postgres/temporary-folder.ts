import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import type { PostgresConnection } from '../../../src/platform/postgres/postgres.ts'
import { findPostmaster, shutDown } from '../../../src/platform/postgres/postmaster.ts'

/** A folder for one test. Disposing it stops its server and removes everything. */
export type TemporaryFolder = AsyncDisposable & { path: string; postmaster(): Promise<number | undefined> }

/** Creates a temporary folder. `inside` is the path of the server's folder below it. */
export async function temporaryFolder(inside = 'postgres'): Promise<TemporaryFolder> {
  const top = await mkdtemp(join(tmpdir(), 'assay-test-'))
  await chmod(top, 0o755) // tests as another user pass through it
  const path = join(top, inside)
  const folder = { path, data: join(path, 'data'), password: '', log: '', lock: '' }
  return {
    path,
    postmaster: async () => (await findPostmaster(folder))?.pid,
    [Symbol.asyncDispose]: async () => {
      await shutDown(folder)
      await rm(top, { recursive: true, force: true, maxRetries: 10 })
    },
  }
}

export async function query(connection: PostgresConnection, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client(connection)
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

/** Creates programs that fail, for the front of PATH. */
export async function failingPrograms(folder: string, names: string[]): Promise<string> {
  await Promise.all(names.map((name) => writeFile(join(folder, name), FAILING, { mode: 0o755 })))
  return folder
}

const FAILING = '#!/bin/sh\necho "$0 is not permitted" >&2\nexit 1\n'

export const readPassword = (folder: string): Promise<string> => readFile(join(folder, 'password'), 'utf8')
