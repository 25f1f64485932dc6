import { open, writeFile } from 'node:fs/promises'
import type { Step } from '../harbor/task.ts'
import { trajectoryOf } from '../harnesses/trajectory.ts'
import type { Bench } from './bench.ts'

/** Beside the agent's output, and made of it: for people to look at. No result hangs on it. */
export async function keepTrajectory(bench: Bench, { instruction }: Step): Promise<void> {
  const { harness, model } = bench.request
  if (!harness.moments) return
  const path = bench.outputFile('agent')
  const output = await beginningOf(path)
  const trajectory = trajectoryOf(harness, { instruction, output, model: model?.access.model })
  if (!trajectory) return
  await writeFile(path.replace(/agent([^/]*)\.log$/, 'trajectory$1.json'), `${JSON.stringify(trajectory, null, 1)}\n`)
}

/** An agent can write a lot, and whoever reads it does nothing else meanwhile. */
const READ_BYTES_MAX = 16 * 1024 * 1024

async function beginningOf(path: string): Promise<string> {
  await using file = await open(path).catch(() => null)
  if (!file) return ''
  const bytes = Buffer.alloc(Math.min((await file.stat()).size, READ_BYTES_MAX))
  const { bytesRead } = await file.read(bytes)
  return bytes.toString('utf8', 0, bytesRead)
}
