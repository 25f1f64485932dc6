import type { SampleRepository } from '../repository.ts'
import { bad, rest } from './bad.ts'
import { base } from './base.ts'
import { good } from './good.ts'

/** Paths to what answers them. TypeScript and vitest. */
export const waymark: SampleRepository = {
  name: 'waymark',
  language: 'typescript',
  base,
  steps: [...Object.values(good), ...bad, ...rest],
  tag: 'v1.0.0',
}
