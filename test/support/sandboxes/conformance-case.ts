import type { CaseContext } from './case-context.ts'

/** A requirement of every provider. Each case is a real run. */
export type ConformanceCase = { name: string; run: (context: CaseContext) => Promise<void> }
