import type { SampleRepository } from '../repository.ts'
import { bad, withoutOlderTests } from './bad.ts'
import { base } from './base.ts'
import { good } from './good.ts'
import { afterHostileBuild, hostileBuild, injection, noHostileBuild } from './hostile.ts'
import { last, screened, tooNew } from './screened.ts'

/** A ledger in plain text. Python and pytest. */
export const tally: SampleRepository = {
  name: 'tally',
  language: 'python',
  base,
  steps: [
    ...Object.values(good),
    ...bad,
    ...[injection, hostileBuild, afterHostileBuild, noHostileBuild],
    ...screened,
    ...last,
    withoutOlderTests,
    tooNew,
  ],
  tag: 'v1.0.0',
}
