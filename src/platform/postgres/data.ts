import { lstat, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { program } from './binaries.ts'
import { findShortage } from './disk-space.ts'
import { type Folder, makeDraft, syncFolder, writeSecret } from './folder.ts'
import { ignoreAbsent } from './ignore-absent.ts'
import { give, giveTree } from './ownership.ts'
import { isMemoryHeld } from './postmaster.ts'
import { PostgresUnavailable } from './unavailable.ts'
import { waitUntil } from './wait-until.ts'
import { type Chosen, run } from './ways.ts'

const ORPHANS_MS = 20_000
const NEW_DATA_MEGABYTES = 64

type Making = { password: string; durable: boolean }

/** Call under the lock and without a running server. */
export async function ensureData(folder: Folder, chosen: Chosen, making: Making): Promise<void> {
  const version = await readFile(join(folder.data, 'PG_VERSION'), 'utf8').catch(ignoreAbsent)
  if (version === undefined) return makeData(folder, chosen, making)

  refuseOtherVersion(folder, version.trim(), chosen.binaries.version)
  await giveData(folder, chosen)
}

function refuseOtherVersion(folder: Folder, found: string, provided: string): void {
  const major = provided.split('.')[0]
  if (found === major) return
  throw new PostgresUnavailable(
    `The data in ${folder.data} was made by PostgreSQL ${found}; this Assay brings PostgreSQL ${major}, which cannot read it.`,
    'Start the Assay that made it and export what you need, choose another folder',
  )
}

/**
 * The data may have been made another way, and so belong to another account. PostgreSQL cannot see
 * processes of another account that still write to the data, so this looks for them.
 */
async function giveData(folder: Folder, { way }: Chosen): Promise<void> {
  if ((await lstat(folder.data)).uid === way.owner.uid) return
  const free = await waitUntil(ORPHANS_MS, async () => !(await isMemoryHeld(folder)) || undefined)
  if (free) return giveTree(folder.data, way.owner)
  throw new PostgresUnavailable(
    `Processes of a server that died still use the data in ${folder.data}.`,
    'End these `postgres` processes',
  )
}

async function makeData(folder: Folder, { way, binaries }: Chosen, { password, durable }: Making): Promise<void> {
  const shortage = await findShortage(folder.path, NEW_DATA_MEGABYTES)
  if (shortage) throw new PostgresUnavailable(shortage, 'Free some space')

  const draft = await makeDraft(folder)
  const passwordFile = join(draft, 'password')
  await writeSecret(passwordFile, password)
  await give(passwordFile, way.owner)
  await give(draft, way.owner)

  const data = join(draft, 'data')
  const made = await run(way, program(binaries, 'initdb'), [
    ...['-D', data, '-U', 'assay', `--pwfile=${passwordFile}`, '-A', 'scram-sha-256'],
    ...['-E', 'UTF8', '--locale=C', '--no-instructions', ...(durable ? [] : ['--no-sync'])],
  ])
  if (made.failed) {
    await rm(draft, { recursive: true })
    throw new PostgresUnavailable(
      `PostgreSQL could not make its data in ${folder.path}:\n${made.output}`,
      'Correct what it names',
    )
  }
  await rename(data, folder.data)
  await syncFolder(folder.path)
  await rm(draft, { recursive: true })
}
