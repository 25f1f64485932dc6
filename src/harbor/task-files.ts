import { createHash } from 'node:crypto'
import { BadPattern, type Ignores, readIgnores, usualIgnores } from './ignore.ts'
import { FILE_BYTES_MAX, FILES_MAX, IGNORE_BYTES_MAX, TASK_BYTES_MAX } from './limits.ts'
import { byCodePoint, newTree, pathFault } from './path-rules.ts'
import type { Report } from './report.ts'
import type { FileSource, SourceFault, SourceFile } from './source.ts'
import type { TaskFile } from './task.ts'
import { readText } from './text-file.ts'

/** What Harbor packs of a folder. Other files at its root are neither packed nor covered by the digest. */
const PARTS = [
  'task.toml',
  'instruction.md',
  'README.md',
  'trajectory.json',
  'environment',
  'tests',
  'solution',
  'steps',
]
const IGNORE_FILE = '.gitignore'
const NEW_IGNORE_FILE = '.harborignore'

/**
 * The files that make up the task, sorted. Of a package: all that Harbor would have packed. Of a folder on which
 * somebody works: without what it would have ignored.
 */
export async function listTaskFiles(source: FileSource, isPackage: boolean, report: Report): Promise<SourceFile[]> {
  const listing = await source.list(PARTS)
  const kept = isPackage ? listing.files : await withoutIgnored(source, listing.files, report)
  const files = kept.toSorted((a, b) => byCodePoint(a.path, b.path))
  for (const fault of listing.faults) report.refuse(fault.path, fault.code, FAULTS[fault.code])
  if (!listing.isComplete || files.length > FILES_MAX) {
    report.refuse('.', 'too_many_files', `The most is ${FILES_MAX} files.`)
  }
  checkSizes(files, report)
  checkPaths(files, report)
  return files
}

const FAULTS: Record<SourceFault['code'], string> = {
  link_outside: 'This link leads out of the task, or nowhere.',
  link_to_folder: 'This is a link to a folder, which Harbor would not pack.',
  special_file: 'Only files and folders can be part of a task.',
  path_too_deep: 'This folder stands too deep.',
}

/** A matcher's steps times the characters of all paths: about a second. */
const IGNORE_WORK_MAX = 500_000_000

async function withoutIgnored(source: FileSource, files: SourceFile[], report: Report): Promise<SourceFile[]> {
  if (files.some(({ path }) => path.endsWith(`/${NEW_IGNORE_FILE}`))) {
    report.refuse(NEW_IGNORE_FILE, 'unsupported', `We do not read ${NEW_IGNORE_FILE} yet. Delete what it names.`)
  }
  const ignores = await ignoresOf(source, report)
  const characters = files.reduce((sum, { path }) => sum + path.length, 0)
  if (ignores.steps * characters > IGNORE_WORK_MAX) {
    report.refuse(IGNORE_FILE, 'too_complex', 'There are too many patterns for so many files.')
    return files
  }
  return files.filter(({ path }) => !ignores.has(path))
}

async function ignoresOf(source: FileSource, report: Report): Promise<Ignores> {
  const { files } = await source.list([IGNORE_FILE])
  const text = files.length > 0 ? await readText(source, IGNORE_FILE, IGNORE_BYTES_MAX, report) : undefined
  try {
    return text === undefined ? usualIgnores() : readIgnores(text)
  } catch (error) {
    if (!(error instanceof BadPattern)) throw error
    report.refuse(IGNORE_FILE, 'bad_pattern', error.message)
    return usualIgnores()
  }
}

function checkSizes(files: SourceFile[], report: Report): void {
  for (const { path } of files.filter(({ bytes }) => bytes > FILE_BYTES_MAX)) {
    report.refuse(path, 'too_large', `A file has ${FILE_BYTES_MAX} bytes at most.`)
  }
  if (files.reduce((sum, { bytes }) => sum + bytes, 0) > TASK_BYTES_MAX) {
    report.refuse('.', 'too_large', `A task has ${TASK_BYTES_MAX} bytes at most.`)
  }
}

/** What we would not unpack, we do not pack. */
function checkPaths(files: SourceFile[], report: Report): void {
  const tree = newTree()
  for (const { path } of files) {
    const fault = pathFault(path) ?? tree.add(path, 'file').fault
    if (fault) report.refuse(path, fault, 'This path would not be the same everywhere.')
  }
}

export async function hashed(source: FileSource, files: readonly SourceFile[]): Promise<TaskFile[]> {
  const described: TaskFile[] = []
  for (const file of files) described.push({ ...file, sha256: await sha256Of(source, file) })
  return described
}

async function sha256Of(source: FileSource, { path, bytes }: SourceFile): Promise<string> {
  const hash = createHash('sha256')
  let read = 0
  for await (const chunk of await source.open(path)) {
    hash.update(chunk)
    read += chunk.length
    if (read > bytes) break
  }
  if (read !== bytes) throw new Error(`${path} changed while it was read. Try again.`)
  return hash.digest('hex')
}
