import { link, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode } from '../../platform/errors.ts'
import { findProcess, isAlive, type ProcessMark, requireSafeId } from '../kernel/ownership.ts'

/** A stored description of a sandbox, from which it can be removed if its `engine` has died. Written before anything else. */
export type SandboxRecord = {
  id: string
  /** Process that started the sandbox. */
  engine: ProcessMark
  deadline: number
  namespaceProcess: ProcessMark | undefined
  cgroups: string[]
}

const EXTENSION = '.json'
const DRAFT_NAME = /\.(\d+)\.draft$/
/** Age from which a draft counts as abandoned: writing a record takes much less time. */
const WRITE_TIMEOUT_MS = 60_000
/** Time after the deadline in which the process that started a sandbox still collects its files and removes it. */
const GRACE_MS = 15 * 60_000

export async function createRecord(
  folder: string,
  record: Omit<SandboxRecord, 'engine' | 'namespaceProcess'>,
): Promise<SandboxRecord> {
  requireSafeId(record.id)
  const engine = await findProcess(process.pid)
  if (engine === undefined) throw new Error('This process is not listed in /proc. Mount /proc.')
  const complete = { ...record, engine, namespaceProcess: undefined }
  await mkdir(folder, { recursive: true })
  const draft = draftPath(folder, record.id)
  await writeFile(draft, JSON.stringify(complete))
  try {
    // Unlike rename, link fails if the record already exists.
    await link(draft, recordPath(folder, record.id))
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
    throw new Error(`Sandbox ${record.id} already exists.`)
  } finally {
    await rm(draft)
  }
  return complete
}

export async function updateRecord(folder: string, record: SandboxRecord): Promise<void> {
  const draft = draftPath(folder, record.id)
  await writeFile(draft, JSON.stringify(record))
  await rename(draft, recordPath(folder, record.id))
}

export const removeRecord = (folder: string, id: string): Promise<void> => rm(recordPath(folder, id), { force: true })

/**
 * Lists the records of sandboxes to remove: the process that started them has died, or their deadline is long past. Also
 * removes drafts of dead writers.
 */
export async function listAbandoned(folder: string): Promise<SandboxRecord[]> {
  const names = await readdir(folder).catch(() => [])
  await Promise.all(names.filter((name) => !name.endsWith(EXTENSION)).map((name) => removeOldDraft(join(folder, name))))
  const records = await Promise.all(
    names.filter((name) => name.endsWith(EXTENSION)).map((name) => readRecord(join(folder, name))),
  )
  const found = records.filter((record) => record !== undefined)
  const abandoned = await Promise.all(found.map(isAbandoned))
  return found.filter((_, index) => abandoned[index])
}

async function isAbandoned({ engine, deadline }: SandboxRecord): Promise<boolean> {
  if (!(await isAlive(engine))) return true
  return engine.pid !== process.pid && Date.now() > deadline + GRACE_MS
}

/** Reads a record. Returns undefined if it was removed in the meantime. */
async function readRecord(path: string): Promise<SandboxRecord | undefined> {
  const text = await readFile(path, 'utf8').catch(() => undefined)
  return text === undefined ? undefined : JSON.parse(text)
}

/** Removes a draft whose writer has died. A draft whose process id has been reused is removed once it is old. */
async function removeOldDraft(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined)
  const writer = await findProcess(Number(DRAFT_NAME.exec(path)?.[1] ?? 0))
  const isOld = found !== undefined && Date.now() - found.mtimeMs > WRITE_TIMEOUT_MS
  if (found && (!writer || isOld)) await rm(path, { force: true })
}

const recordPath = (folder: string, id: string): string => join(folder, `${id}${EXTENSION}`)
const draftPath = (folder: string, id: string): string => join(folder, `${id}.${process.pid}.draft`)
