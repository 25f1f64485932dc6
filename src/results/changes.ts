import { listenTo } from '../platform/db/notices.ts'
import type { ResultsCache } from './cache.ts'
import { CHANGED } from './sql.ts'

/** Hears what changes, in whichever process. While it cannot hear, nothing is kept. */
export const hearChanges = (url: string, cache: ResultsCache): { close(): Promise<void> } =>
  listenTo(
    { url, channel: CHANGED, applicationName: 'assay-results' },
    { onConnect: cache.joined, onNotice: cache.changed, onDisconnect: cache.lost },
  )
