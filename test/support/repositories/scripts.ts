import { drafts as cadence } from './cadence/drafts.ts'
import type { Drafts } from './draft.ts'
import { drafts as quill } from './quill/drafts.ts'
import { drafts as tally } from './tally/drafts.ts'
import { drafts as waymark } from './waymark/drafts.ts'

/** What a careful author writes for every pull request that makes a good task, by the name of the repository. */
export const drafts: Record<string, Drafts> = { tally, waymark, cadence, quill }
