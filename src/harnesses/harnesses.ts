import type { Harness } from './harness.ts'
import { nop } from './nop.ts'
import { oracle } from './oracle.ts'

export const harnesses: readonly Harness[] = [oracle, nop]
