import { randomUUID } from 'node:crypto'
import { rmSync } from 'node:fs'
import { link, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import { findProcess, isAlive, type ProcessMark } from '../kernel/ownership.ts'
import { shellCommand } from '../kernel/shell.ts'
import type { ImageStore } from './image-store.ts'

/** Information for removing a sandbox whose `engine` has died. Written before anything else is created. */
export type SandboxRecord = {
  id: string
  /** Process that started the sandbox. */
  engine: ProcessMark
  deadline: number
  namespaceProcess: ProcessMark | undefined
  cgroups: string[]
}

const SAFE_ID = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$/
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
  if (!SAFE_ID.test(record.id)) throw new Error(`Invalid sandbox id: ${JSON.stringify(record.id)}`)
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
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
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
  if (found && (!writer || Date.now() - found.mtimeMs > WRITE_TIMEOUT_MS)) await rm(path, { force: true })
}

const recordPath = (folder: string, id: string): string => join(folder, `${id}${EXTENSION}`)
const draftPath = (folder: string, id: string): string => join(folder, `${id}.${process.pid}.draft`)

/** Pool of named pipes. They are created many at a time, because each creation starts a process. */
export type PipePool = { put(namespaceProcess: NamespaceProcess, path: string): Promise<void> }

const BATCH_SIZE = 32
const PIPES_PREFIX = 'pipes-'

/** Reports whether a record is that of a pipe folder, not of a sandbox. */
export const isPipeRecord = ({ id }: { id: string }): boolean => id.startsWith(PIPES_PREFIX)

export function createPipePool(store: ImageStore): PipePool {
  const ready: string[] = []
  let folder: Promise<string> | undefined
  let filling: Promise<void> | undefined

  const fill = async (namespaceProcess: NamespaceProcess): Promise<void> => {
    folder ??= openFolder(store)
    const pipesFolder = await folder
    const names = Array.from({ length: BATCH_SIZE }, () => join(pipesFolder, randomUUID()))
    await namespaceProcess.runOrThrow('Making pipes', shellCommand('mkfifo', '-m', '666', ...names))
    ready.push(...names)
  }
  return {
    async put(namespaceProcess, path) {
      let pipe = ready.pop()
      while (pipe === undefined) {
        filling ??= fill(namespaceProcess).finally(() => {
          filling = undefined
        })
        await filling
        pipe = ready.pop()
      }
      await rename(pipe, path)
    },
  }
}

/** Creates the folder of the pipes. It is removed when this process exits; after a crash, `reap` finds it by a record like a sandbox's. */
async function openFolder(store: ImageStore): Promise<string> {
  const id = `${PIPES_PREFIX}${randomUUID()}`
  const records = join(store.folder, 'records')
  await createRecord(records, { id, deadline: Number.MAX_SAFE_INTEGER, cgroups: [] })
  const folder = join(store.folder, 'run', id)
  await mkdir(folder, { mode: 0o700, recursive: true })
  process.once('exit', () => {
    rmSync(folder, { recursive: true, force: true })
    rmSync(join(records, `${id}.json`), { force: true })
  })
  return folder
}
