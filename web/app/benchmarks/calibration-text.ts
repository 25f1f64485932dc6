import type { Benchmark } from '../../../src/benchmarks/schema.ts'

/** Describes how far the calibration of a benchmark is, and what it found. */
export function describeCalibration({ calibration, tasks }: Pick<Benchmark, 'calibration' | 'tasks'>): string {
  if (!calibration) return 'not calibrated'
  const { done, fit, weak } = calibration
  if (done < tasks) return `${done} of ${tasks} calibrated`
  return `${fit} of ${tasks} usable${weak > 0 ? `, ${weak} weak` : ''}`
}
