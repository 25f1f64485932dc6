import { open, writeFile } from 'node:fs/promises'
import { findHarness } from '../harnesses/harnesses.ts'
import { buildEventParser, type OutputRule } from '../harnesses/output-mapping.ts'
import { buildTrajectory } from '../harnesses/trajectory.ts'

type Conversion = {
  /** A harness of ours, unless there are rules. */
  id: string
  version: string
  rules: readonly OutputRule[] | undefined
  instruction: string
  model: string | undefined
  source: string
  target: string
}

/** Runs in a thread: converting 16 MiB takes longer than the event loop may be blocked. */
export async function convertTrajectory(conversion: Conversion): Promise<void> {
  const { id, version, rules, instruction, model, source, target } = conversion
  const trajectoryEvents = rules ? buildEventParser(rules) : findHarness(id)?.trajectoryEvents
  if (!trajectoryEvents) return
  const output = await beginningOf(source)
  const trajectory = buildTrajectory({ id, version, trajectoryEvents }, { instruction, output, model })
  if (trajectory) await writeFile(target, `${JSON.stringify(trajectory)}\n`)
}

/** Output beyond this is not converted. */
const READ_BYTES_MAX = 16 * 1024 * 1024

async function beginningOf(path: string): Promise<string> {
  await using file = await open(path).catch(() => null)
  if (!file) return ''
  const bytes = Buffer.alloc(Math.min((await file.stat()).size, READ_BYTES_MAX))
  const { bytesRead } = await file.read(bytes)
  return bytes.toString('utf8', 0, bytesRead)
}
