import type { TaskStep } from '../harbor/task.ts'
import type { Bench } from './bench.ts'
import { textThreads } from './threads.ts'

/**
 * Writes the trajectory beside the agent's output, from which it is made. It is for people to look at; no result depends
 * on it, so a failure leaves out the file and nothing else.
 */
export async function keepTrajectory(bench: Bench, { instruction }: TaskStep): Promise<void> {
  const { harness, model, signal } = bench.request
  if (!harness.trajectoryEvents) return
  const { id, version, outputRules } = harness
  const source = bench.outputFile('agent')
  const target = source.replace(/agent([^/]*)\.log$/, 'trajectory$1.json')
  const input = { id, version, rules: outputRules, instruction, model: model?.access.model, source, target }
  await textThreads.run('convertTrajectory', input).catch(() => {})
  signal.throwIfAborted()
}
