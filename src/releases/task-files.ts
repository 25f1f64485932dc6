import { Readable } from 'node:stream'
import { openContent } from '../contents/contents.ts'
import { ArchiveRefused, tarStream } from '../harbor/archive-stream.ts'
import { FILES_MAX, TASK_BYTES_MAX } from '../harbor/limits.ts'
import { sanitizeText } from '../harbor/report.ts'
import { matchCredentials } from '../harbor/safety/rules/credentials.ts'
import { readTarEntries } from '../harbor/tar-reader.ts'
import { type Blobs, isDigest } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { Problem } from '../platform/problem.ts'
import { listTasks, type SettingResult } from './aggregate.ts'
import type { ReleaseTask } from './facts.ts'
import type { ReleaseContext } from './preview.ts'
import { secretsFound } from './schema.ts'
import { replacePublicTasks } from './sql.ts'

export type PublishTasksDeps = { db: Db; blobs: Blobs }

type SecretFinding = SuspectedSecret & { task: string }

const FINDINGS_MAX = 50

/**
 * Scans every file of the tasks of these settings. Returns their digests; throws if a file contains a suspected
 * secret.
 */
export async function requireNoSecrets(
  { blobs }: PublishTasksDeps,
  tasks: readonly ReleaseTask[],
  chosen: readonly SettingResult[],
): Promise<ReadonlySet<string>> {
  const published = new Set(listTasks(chosen))
  const scanned = tasks.filter(({ digest }) => published.has(digest))
  const findings: SecretFinding[] = []
  for (const task of scanned) findings.push(...(await scanTask(blobs, task)))
  if (findings.length === 0) return new Set(scanned.map(({ digest }) => digest))
  const [first] = findings
  const members = { findings: findings.slice(0, FINDINGS_MAX) }
  throw new Problem(secretsFound, `${first?.task}: ${first?.path}: ${first?.detail}`, { members })
}

/** Scans complete files of any type, because published files are readable by anyone. */
async function scanTask(blobs: Blobs, { taskId, archive }: ReleaseTask): Promise<SecretFinding[]> {
  if (!isDigest(archive)) throw new Error('Invalid archive digest of a task')
  const secrets = await listSecrets(openContent(blobs, archive))
  return secrets.map((secret) => ({ task: taskId, ...secret }))
}

/** Publishes task files. Returns true if a task was not public before or had other files. */
export function publishFiles(
  { db }: { db: Db },
  { repository, facts }: ReleaseContext,
  chosen: readonly SettingResult[],
  cleanDigests: ReadonlySet<string>,
): Promise<boolean> {
  const published = new Set(listTasks(chosen))
  const tasks = facts.tasks.filter(({ digest }) => published.has(digest))
  if (tasks.some(({ digest }) => !cleanDigests.has(digest))) throw new Error('Task files were not scanned for secrets')
  return replacePublicTasks(db, repository.key, toPublicTasks(tasks))
}

/** Names tasks by their id. Ids that occur in several batches get a part of the digest, within the length of a path part. */
function toPublicTasks(tasks: readonly ReleaseTask[]) {
  const tasksById = Map.groupBy(tasks, ({ taskId }) => taskId)
  return tasks.map(({ taskId, digest, title, difficulty }) => ({
    id: (tasksById.get(taskId)?.length ?? 0) > 1 ? `${taskId.slice(0, 80)}-${digest.slice(-12)}` : taskId,
    digest,
    title,
    difficulty,
  }))
}

type SuspectedSecret = { path: string; line: number | undefined; detail: string }

type SecretScanFile = { path: string; content: AsyncIterable<Buffer> }

const ARCHIVE_NAME = /\.(?:tar|tar\.gz|tgz)$/i
const UNPACK_LIMITS = { entries: FILES_MAX, totalBytes: TASK_BYTES_MAX, ratio: 200, timeMs: 600_000 }

/** Lists suspected secrets in files and in archives among them. Nested archives are not opened. */
async function listSecrets(files: AsyncIterable<SecretScanFile>): Promise<SuspectedSecret[]> {
  const secrets: SuspectedSecret[] = []
  for await (const { path, content } of files) {
    if (!ARCHIVE_NAME.test(path)) secrets.push(...(await scanFile(path, content)))
    else if (!(await scanArchive(path, content, secrets))) break
  }
  return secrets
}

/** Scans an archive. Returns false if it could not be read completely, in which case later files cannot be read either. */
async function scanArchive(path: string, content: AsyncIterable<Buffer>, secrets: SuspectedSecret[]): Promise<boolean> {
  try {
    for await (const entry of readTarEntries(tarStream(Readable.from(content), UNPACK_LIMITS)))
      secrets.push(...(await scanFile(`${path}/${sanitizeText(entry.path)}`, entry.content())))
    return true
  } catch (error) {
    if (!(error instanceof ArchiveRefused)) throw error
    // Unpacking it with another tool may reveal more.
    secrets.push({ path, line: undefined, detail: `The archive cannot be scanned. ${error.message}` })
    return false
  }
}

const WINDOW_BYTES = 1024 * 1024
/** Overlap of two windows, longer than any secret. */
const OVERLAP_BYTES = 64 * 1024

async function scanFile(path: string, content: AsyncIterable<Buffer>): Promise<SuspectedSecret[]> {
  const secrets = new Map<string, SuspectedSecret>()
  let linesBefore = 0
  for await (const { text, nextStart } of readWindows(content)) {
    for (const { line = 1, detail } of matchCredentials({ path, text, isWhole: false }))
      secrets.set(`${linesBefore + line} ${detail}`, { path, line: linesBefore + line, detail })
    linesBefore += countLineBreaks(text.slice(0, nextStart))
  }
  return [...secrets.values()]
}

const countLineBreaks = (text: string): number => text.split('\n').length - 1

/**
 * Yields a text in overlapping windows. `nextStart` is where the next window starts: at the last line, or far enough before the
 * end that no secret is split. Decodes as latin1: one character per byte, which never fails.
 */
async function* readWindows(content: AsyncIterable<Buffer>): AsyncGenerator<{ text: string; nextStart: number }> {
  let overlap = ''
  let chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of content) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes < WINDOW_BYTES) continue
    const text = overlap + Buffer.concat(chunks).toString('latin1')
    const nextStart = Math.max(text.lastIndexOf('\n') + 1, text.length - OVERLAP_BYTES)
    yield { text, nextStart }
    overlap = text.slice(nextStart)
    chunks = []
    bytes = 0
  }
  const text = overlap + Buffer.concat(chunks).toString('latin1')
  yield { text, nextStart: text.length }
}
