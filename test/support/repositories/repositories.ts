import { cadence } from './cadence/cadence.ts'
import { quill } from './quill/quill.ts'
import type { SampleRepository } from './repository.ts'
import { tally } from './tally/tally.ts'
import { waymark } from './waymark/waymark.ts'

export const repositories: readonly SampleRepository[] = [tally, waymark, cadence, quill]
