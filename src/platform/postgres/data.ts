import { lstat, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { program } from './binaries.ts'
import { findShortage } from './disk-space.ts'
import { createDraft, type ServerFolder, syncFolder, writeSecret } from './folder.ts'
import { ignoreAbsent } from './ignore-absent.ts'
import { type ChosenLaunch, run } from './launch-strategies.ts'
import { changeOwner, changeTreeOwner } from './ownership.ts'
import { isMemoryHeld } from './postmaster.ts'
import { PostgresUnavailable } from './unavailable.ts'
import { waitUntil } from './wait-until.ts'

const ORPHANS_MS = 20_000
const NEW_DATA_MEGABYTES = 64

type DataOptions = { password: string; durable: boolean }

/** Creates the data, or checks its version and owner. Call under the lock and without a running server. */
export async function ensureData(folder: ServerFolder, chosen: ChosenLaunch, options: DataOptions): Promise<void> {
  const version = await readFile(join(folder.data, 'PG_VERSION'), 'utf8').catch(ignoreAbsent)
  if (version === undefined) return createData(folder, chosen, options)

  refuseOtherVersion(folder, version.trim(), chosen.binaries.version)
  await transferData(folder, chosen)
}

function refuseOtherVersion(folder: ServerFolder, found: string, provided: string): void {
  const major = provided.split('.')[0]
  if (found === major) return
  throw new PostgresUnavailable(
    `The data in ${folder.data} was created by PostgreSQL ${found}; this Assay includes PostgreSQL ${major}, which cannot read it.`,
    'Export it with the version of Assay that created it, choose another folder',
  )
}

/**
 * Changes the owner of data that was created with another strategy. PostgreSQL cannot see processes of another account
 * that still write to the data, so this waits for them.
 */
async function transferData(folder: ServerFolder, { strategy }: ChosenLaunch): Promise<void> {
  if ((await lstat(folder.data)).uid === strategy.owner.uid) return
  const free = await waitUntil(ORPHANS_MS, async () => !(await isMemoryHeld(folder)) || undefined)
  if (free) return changeTreeOwner(folder.data, strategy.owner)
  throw new PostgresUnavailable(
    `Processes of a server that died still use the data in ${folder.data}.`,
    'End these `postgres` processes',
  )
}

async function createData(
  folder: ServerFolder,
  { strategy, binaries }: ChosenLaunch,
  { password, durable }: DataOptions,
): Promise<void> {
  const shortage = await findShortage(folder.path, NEW_DATA_MEGABYTES)
  if (shortage) throw new PostgresUnavailable(shortage, 'Free some space')

  const draft = await createDraft(folder)
  const passwordFile = join(draft, 'password')
  await writeSecret(passwordFile, password)
  await changeOwner(passwordFile, strategy.owner)
  await changeOwner(draft, strategy.owner)

  const data = join(draft, 'data')
  const result = await run(strategy, program(binaries, 'initdb'), [
    ...['-D', data, '-U', 'assay', `--pwfile=${passwordFile}`, '-A', 'scram-sha-256'],
    ...['-E', 'UTF8', '--locale=C', '--no-instructions', ...(durable ? [] : ['--no-sync'])],
  ])
  if (result.failed) {
    await rm(draft, { recursive: true })
    throw new PostgresUnavailable(
      `PostgreSQL could not create its data in ${folder.path}:\n${result.output}`,
      'Fix the cause',
    )
  }
  await rename(data, folder.data)
  await syncFolder(folder.path)
  await rm(draft, { recursive: true })
}
