import { open, writeFile } from 'node:fs/promises'
import { findHarness } from '../harnesses/harnesses.ts'
import { buildEventParser, type OutputRule } from '../harnesses/output-mapping.ts'
import { buildTrajectory } from '../harnesses/trajectory.ts'
import { serveTasks } from '../platform/threads.ts'
import { spoolArtifact, unpackArtifact } from './artifact-archive.ts'
import { writePatch } from './write-patch.ts'

/** Tasks of the threads that read untrusted files of agents. */
const tasks = { convertTrajectory, writePatch, spoolArtifact, unpackArtifact }
export type TrialThreadTasks = typeof tasks

serveTasks(tasks)

type TrajectoryConversion = {
  /** Id of a built-in harness, unless there are rules. */
  id: string
  version: string
  rules: readonly OutputRule[] | undefined
  instruction: string
  model: string | undefined
  source: string
  target: string
}

/** Runs in a thread: converting 16 MiB takes longer than the event loop may be blocked. */
async function convertTrajectory(conversion: TrajectoryConversion): Promise<void> {
  const { id, version, rules, instruction, model, source, target } = conversion
  const trajectoryEvents = rules ? buildEventParser(rules) : findHarness(id)?.trajectoryEvents
  if (!trajectoryEvents) return
  const output = await readBeginning(source)
  const trajectory = buildTrajectory({ id, version, trajectoryEvents }, { instruction, output, model })
  if (trajectory) await writeFile(target, `${JSON.stringify(trajectory)}\n`)
}

/** Output beyond this is not converted. */
const READ_BYTES_MAX = 16 * 1024 * 1024

async function readBeginning(path: string): Promise<string> {
  await using file = await open(path).catch(() => null)
  if (!file) return ''
  const bytes = Buffer.alloc(Math.min((await file.stat()).size, READ_BYTES_MAX))
  const { bytesRead } = await file.read(bytes)
  return bytes.toString('utf8', 0, bytesRead)
}
