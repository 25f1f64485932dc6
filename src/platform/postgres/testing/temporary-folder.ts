import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import type { Connection } from '../postgres.ts'
import { findPostmaster, shutDown } from '../postmaster.ts'

/** A folder for one test. When the test is over its server is stopped and all is removed. */
export type TemporaryFolder = AsyncDisposable & { path: string; postmaster(): Promise<number | undefined> }

/** `inside` is where the server lives below the folder that is removed. */
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

export async function query(connection: Connection, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client(connection)
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

/** A folder of programs that fail, to be put first in PATH. */
export async function failingPrograms(folder: string, names: string[]): Promise<string> {
  await Promise.all(names.map((name) => writeFile(join(folder, name), FAILING, { mode: 0o755 })))
  return folder
}

const FAILING = '#!/bin/sh\necho "$0 is not permitted" >&2\nexit 1\n'

export const readPassword = (folder: string): Promise<string> => readFile(join(folder, 'password'), 'utf8')
