import { cadence } from './cadence/cadence.ts'
import { quill } from './quill/quill.ts'
import type { Repository } from './repository.ts'
import { tally } from './tally/tally.ts'
import { waymark } from './waymark/waymark.ts'

export const repositories: readonly Repository[] = [tally, waymark, cadence, quill]
