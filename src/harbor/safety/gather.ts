import { readOutline } from '../read-task.ts'
import type { FileSource, SourceFile } from '../source.ts'
import type { ScannedFile } from './task-parts.ts'
import type { Gathered } from './view.ts'

/** Of one file, this much is looked into. Real files of text are smaller; one that is not gets a warning. */
const SCANNED_BYTES_MAX = 1024 * 1024
/** Of all files of a task together. */
const SCANNED_TOTAL_MAX = 32 * 1024 * 1024

/** Reads a task for the rules: each file once and not to its end when it is long. */
export async function gather(source: FileSource, isPackage: boolean): Promise<Gathered> {
  const { outline, listed, report } = await readOutline(source, isPackage)
  return {
    outline,
    files: listed,
    refusals: report.refusals,
    warnings: report.warnings,
    scanned: await scan(source, listed),
  }
}

/** So many files are open at once. */
const READERS = 8

async function scan(source: FileSource, listed: SourceFile[]): Promise<ScannedFile[]> {
  const queue = withinTotal(listed).entries()
  const scanned: ScannedFile[] = []
  const read = async () => {
    for (const [place, { path }] of queue) scanned[place] = { path, ...(await headOf(source, path)) }
  }
  await Promise.all(Array.from({ length: READERS }, read))
  return scanned
}

/** What the rules know by name comes first, so that no pile of other files can hide it. */
function withinTotal(listed: SourceFile[]): SourceFile[] {
  const weight = ({ path }: SourceFile) => (/^(?:[^/]+|environment\/[^/]+|.*\.(?:sh|toml|ya?ml))$/.test(path) ? 0 : 1)
  let total = 0
  return listed
    .toSorted((a, b) => weight(a) - weight(b))
    .filter(({ bytes }) => {
      total += Math.min(bytes, SCANNED_BYTES_MAX)
      return total <= SCANNED_TOTAL_MAX
    })
}

async function headOf(source: FileSource, path: string): Promise<Pick<ScannedFile, 'bytes' | 'isWhole'>> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of await source.open(path)) {
    chunks.push(chunk)
    length += chunk.length
    if (length > SCANNED_BYTES_MAX) break
  }
  const bytes = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)
  return { bytes: bytes.subarray(0, SCANNED_BYTES_MAX), isWhole: length <= SCANNED_BYTES_MAX }
}
