import { buffer } from 'node:stream/consumers'
import { z } from 'zod'
import { readTarEntries } from '../harbor/tar-reader.ts'
import type { StoppedSandbox } from '../sandboxes/sandbox.ts'
import type { SuiteOutcome } from './suite.ts'

const REPORT_BYTES_MAX = 128 * 1024 * 1024

const SuiteRun = z.object({
  statuses: z.record(z.string(), z.enum(['passed', 'failed', 'errored', 'skipped'])),
  messages: z.record(z.string(), z.string()),
  exitCode: z.int().nullable(),
  seconds: z.number(),
  cpuSeconds: z.number().optional(),
})

const Outcome = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ran'), run: SuiteRun }),
  z.object({
    kind: z.literal('broken'),
    reason: z.enum(['no_report', 'timeout', 'patch_does_not_apply', 'prepare_failed']),
    detail: z.string(),
  }),
])

/** Parses a verifier's `report.json`. The file is untrusted; returns undefined if it is invalid. */
export function parseReport(report: string): SuiteOutcome | undefined {
  try {
    return Outcome.safeParse(JSON.parse(report)).data
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

export type GradeOutput = {
  /** Undefined if the grader wrote no valid report. */
  outcome: SuiteOutcome | undefined
  /** Content of `reward.txt`. */
  reward: string | undefined
}

/** Reads the files that root wrote, after all processes of the sandbox have ended. */
export async function readGradeOutput(stopped: StoppedSandbox): Promise<GradeOutput> {
  const found = await stopped.collect('/logs/verifier', { files: 10, bytes: REPORT_BYTES_MAX })
  const output: GradeOutput = { outcome: undefined, reward: undefined }
  if (found === undefined) return output
  for await (const entry of readTarEntries(found.tar)) {
    const text = (await buffer(entry.content())).toString('utf8')
    if (entry.path === 'verifier/report.json') output.outcome = parseReport(text)
    if (entry.path === 'verifier/reward.txt') output.reward = text
  }
  return output
}
