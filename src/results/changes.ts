import { listenTo } from '../platform/db/notices.ts'
import type { ResultsCache } from './cache.ts'
import { CHANGED_CHANNEL } from './sql.ts'

/** Invalidates the cache when any process changes results. The cache is off while the connection is down. */
export const listenForChanges = (url: string, cache: ResultsCache): { close(): Promise<void> } =>
  listenTo(
    { url, channel: CHANGED_CHANNEL, applicationName: 'assay-results' },
    { onConnect: cache.joined, onNotice: cache.changed, onDisconnect: cache.lost },
  )
