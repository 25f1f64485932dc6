import { createHash } from 'node:crypto'
import { defaultIgnoreRules, type IgnoreRules, InvalidPattern, parseIgnoreFile } from './ignore.ts'
import { FILE_BYTES_MAX, FILES_MAX, IGNORE_BYTES_MAX, TASK_BYTES_MAX } from './limits.ts'
import { compareCodePoints, createPathTree, findPathFault } from './paths.ts'
import type { Report } from './report.ts'
import type { FileSource, SourceFault, SourceFile } from './source.ts'
import type { TaskFile } from './task.ts'
import { readText } from './text-file.ts'

/** Paths that Harbor packs. Other files in the root folder are neither packed nor covered by the digest. */
const PACKED_PATHS = [
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
 * Lists the files of a task, sorted. Ignore rules apply to a working folder, not to a package, whose files Harbor has
 * already selected.
 */
export async function listTaskFiles(source: FileSource, isPackage: boolean, report: Report): Promise<SourceFile[]> {
  const listing = await source.list(PACKED_PATHS)
  const selected = isPackage ? listing.files : await dropIgnored(source, listing.files, report)
  const files = selected.toSorted((a, b) => compareCodePoints(a.path, b.path))
  for (const fault of listing.faults) report.refuse(fault.path, fault.code, FAULTS[fault.code])
  if (!listing.isComplete || files.length > FILES_MAX) {
    report.refuse('.', 'too_many_files', `The limit is ${FILES_MAX} files.`)
  }
  checkSizes(files, report)
  checkPaths(files, report)
  return files
}

const FAULTS: Record<SourceFault['code'], string> = {
  link_outside: 'The link leads out of the task or to a missing file.',
  link_to_folder: 'The link leads to a folder, which Harbor does not pack.',
  special_file: 'A task can only contain regular files and folders.',
  path_too_deep: 'The folder is nested too deeply.',
}

/** Maximum of pattern steps times characters of all paths, which takes about a second. */
const IGNORE_WORK_MAX = 500_000_000

async function dropIgnored(source: FileSource, files: SourceFile[], report: Report): Promise<SourceFile[]> {
  if (files.some(({ path }) => path.endsWith(`/${NEW_IGNORE_FILE}`))) {
    report.refuse(
      NEW_IGNORE_FILE,
      'unsupported',
      `${NEW_IGNORE_FILE} is not supported yet. Delete the files that it lists.`,
    )
  }
  const ignores = await loadIgnoreRules(source, report)
  const characters = files.reduce((sum, { path }) => sum + path.length, 0)
  if (ignores.steps * characters > IGNORE_WORK_MAX) {
    report.refuse(IGNORE_FILE, 'too_complex', 'Too many patterns for this number of files.')
    return files
  }
  return files.filter(({ path }) => !ignores.has(path))
}

async function loadIgnoreRules(source: FileSource, report: Report): Promise<IgnoreRules> {
  const { files } = await source.list([IGNORE_FILE])
  const text = files.length > 0 ? await readText(source, IGNORE_FILE, IGNORE_BYTES_MAX, report) : undefined
  try {
    return text === undefined ? defaultIgnoreRules() : parseIgnoreFile(text)
  } catch (error) {
    if (!(error instanceof InvalidPattern)) throw error
    report.refuse(IGNORE_FILE, 'bad_pattern', error.message)
    return defaultIgnoreRules()
  }
}

function checkSizes(files: SourceFile[], report: Report): void {
  for (const { path } of files.filter(({ bytes }) => bytes > FILE_BYTES_MAX)) {
    report.refuse(path, 'too_large', `The limit is ${FILE_BYTES_MAX} bytes per file.`)
  }
  if (files.reduce((sum, { bytes }) => sum + bytes, 0) > TASK_BYTES_MAX) {
    report.refuse('.', 'too_large', `The limit is ${TASK_BYTES_MAX} bytes per task.`)
  }
}

/** Refuses paths that could not be unpacked again. */
function checkPaths(files: SourceFile[], report: Report): void {
  const tree = createPathTree()
  for (const { path } of files) {
    const fault = findPathFault(path) ?? tree.add(path, 'file').fault
    if (fault) report.refuse(path, fault, 'The path is not portable between file systems.')
  }
}

export async function hashFiles(source: FileSource, files: readonly SourceFile[]): Promise<TaskFile[]> {
  const described: TaskFile[] = []
  for (const file of files) described.push({ ...file, sha256: await hashFile(source, file) })
  return described
}

async function hashFile(source: FileSource, { path, bytes }: SourceFile): Promise<string> {
  const hash = createHash('sha256')
  let read = 0
  for await (const chunk of await source.open(path)) {
    hash.update(chunk)
    read += chunk.length
    if (read > bytes) break
  }
  if (read !== bytes) throw new Error(`${path} changed while it was being read. Try again.`)
  return hash.digest('hex')
}
