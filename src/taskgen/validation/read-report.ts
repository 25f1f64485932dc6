import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import type { SuiteOutcome } from '../../grading/suite.ts'
import { parseReport } from '../../grading/suite-report.ts'

const REPORT_BYTES_MAX = 64 * 1024 * 1024

/** Reads the verifier's report; undefined if it is missing or unreadable. */
export async function readReport(folder: string): Promise<SuiteOutcome | undefined> {
  const file = await open(join(folder, 'report.json'), PLAINLY).catch(() => undefined)
  if (!file) return undefined
  try {
    const stats = await file.stat()
    if (!stats.isFile() || stats.size > REPORT_BYTES_MAX) return undefined
    return parseReport(await file.readFile('utf8'))
  } finally {
    await file.close()
  }
}

/** No link is followed, and no writer waited for. */
const PLAINLY = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
