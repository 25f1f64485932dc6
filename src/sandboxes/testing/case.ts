import type { Bench } from './bench.ts'

/** What every provider must do. Each case is a real run. */
export type Case = { name: string; run: (bench: Bench) => Promise<void> }
