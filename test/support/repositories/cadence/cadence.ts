import type { SampleRepository } from '../repository.ts'
import { bad, screened } from './bad.ts'
import { base } from './base.ts'
import { good } from './good.ts'
import { graspingTest } from './hostile.ts'

/** Jobs at their times. Go and its standard library. */
export const cadence: SampleRepository = {
  name: 'cadence',
  language: 'go',
  base,
  steps: [...Object.values(good), ...bad, graspingTest, ...screened],
  tag: 'v1.0.0',
}
