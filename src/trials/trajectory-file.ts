import { open, writeFile } from 'node:fs/promises'
import type { Step } from '../harbor/task.ts'
import { findHarness } from '../harnesses/harnesses.ts'
import { momentsBy, type Rule } from '../harnesses/output-mapping.ts'
import { trajectoryOf } from '../harnesses/trajectory.ts'
import type { Bench } from './bench.ts'
import { textThreads } from './threads.ts'

/**
 * Writes the trajectory beside the agent's output, from which it is made. It is for people to look at; no result depends
 * on it, so a failure leaves out the file and nothing else.
 */
export async function keepTrajectory(bench: Bench, { instruction }: Step): Promise<void> {
  const { harness, model, signal } = bench.request
  if (!harness.moments) return
  const { id, version, outputRules } = harness
  const source = bench.outputFile('agent')
  const target = source.replace(/agent([^/]*)\.log$/, 'trajectory$1.json')
  const input = { id, version, rules: outputRules, instruction, model: model?.access.model, source, target }
  await textThreads.run('convertTrajectory', input).catch(() => {})
  signal.throwIfAborted()
}

type Conversion = {
  /** A harness of ours, unless there are rules. */
  id: string
  version: string
  rules: readonly Rule[] | undefined
  instruction: string
  model: string | undefined
  source: string
  target: string
}

/** Runs in a thread: converting 16 MiB takes longer than the event loop may be blocked. */
export async function convertTrajectory(conversion: Conversion): Promise<void> {
  const { id, version, rules, instruction, model, source, target } = conversion
  const moments = rules ? momentsBy(rules) : findHarness(id)?.moments
  if (!moments) return
  const output = await beginningOf(source)
  const trajectory = trajectoryOf({ id, version, moments }, { instruction, output, model })
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
