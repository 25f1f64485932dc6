/** A line of the table: measured quantity, limit, value, and whether it passes. */
export type MeasureRow = { what: string; bar: string; measured: string; passes: boolean | undefined }

export type BenchMeasurement = { name: string; about: string; run(): Promise<MeasureRow[]> }

export const median = (numbers: number[]): number => {
  const sorted = [...numbers].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

export const atLeast = (what: string, value: number, bar: number, show: (n: number) => string): MeasureRow => ({
  what,
  bar: `≥ ${show(bar)}`,
  measured: show(value),
  passes: value >= bar,
})

export const atMost = (what: string, value: number, bar: number, show: (n: number) => string): MeasureRow => ({
  what,
  bar: `≤ ${show(bar)}`,
  measured: show(value),
  passes: value <= bar,
})

export const note = (what: string, measured: string): MeasureRow => ({ what, bar: '', measured, passes: undefined })

export const times = (n: number): string => `${n.toFixed(2)} ×`
export const seconds = (n: number): string => `${n.toFixed(2)} s`
export const perSecond = (n: number): string => `${Math.round(n)}/s`
export const mebibytes = (n: number): string => `${Math.round(n)} MiB`
export const milliseconds = (n: number): string => `${n.toFixed(1)} ms`
