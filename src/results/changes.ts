import { listenTo } from '../platform/db/notices.ts'
import type { ResultsCache } from './cache.ts'
import { CHANGED } from './sql.ts'

/** Hears what changes, in whichever process. While it cannot hear, nothing is kept. */
export const hearChanges = (url: string, cache: ResultsCache): { close(): Promise<void> } =>
  listenTo(
    { url, channel: CHANGED, application: 'assay-results' },
    { joined: cache.joined, heard: cache.changed, lost: cache.lost },
  )
