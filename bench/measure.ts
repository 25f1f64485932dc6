/** A row of the results table. `passes` is undefined for a row without a target. */
export type MeasureRow = { label: string; target: string; measured: string; passes: boolean | undefined }

export type BenchMeasurement = { name: string; about: string; run(): Promise<MeasureRow[]> }

export const median = (numbers: number[]): number => {
  const sorted = [...numbers].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

export const atLeast = (label: string, value: number, target: number, show: (n: number) => string): MeasureRow => ({
  label,
  target: `≥ ${show(target)}`,
  measured: show(value),
  passes: value >= target,
})

export const atMost = (label: string, value: number, target: number, show: (n: number) => string): MeasureRow => ({
  label,
  target: `≤ ${show(target)}`,
  measured: show(value),
  passes: value <= target,
})

export const note = (label: string, measured: string): MeasureRow => ({
  label,
  target: '',
  measured,
  passes: undefined,
})

export const times = (n: number): string => `${n.toFixed(2)} ×`
export const seconds = (n: number): string => `${n.toFixed(2)} s`
export const perSecond = (n: number): string => `${Math.round(n)}/s`
export const mebibytes = (n: number): string => `${Math.round(n)} MiB`
export const milliseconds = (n: number): string => `${n.toFixed(1)} ms`
