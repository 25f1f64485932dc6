import { drafts as cadence } from './cadence/drafts.ts'
import type { Drafts } from './draft.ts'
import { drafts as pantry } from './pantry/pantry.ts'
import { drafts as quill } from './quill/drafts.ts'
import { drafts as tally } from './tally/drafts.ts'
import { drafts as waymark } from './waymark/drafts.ts'

/** Instructions of a careful author for every good pull request, by name of the repository. */
export const drafts: Record<string, Drafts> = { tally, waymark, cadence, quill, pantry }
