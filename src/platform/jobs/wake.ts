import { listenTo } from '../db/notices.ts'
import type { Outage } from './outage.ts'
import { CHANNEL } from './sql.ts'

type Hear = (notice: string) => void
type Wake = { close(): Promise<void> }

/** Hears what there is to do. `missed`: there may have been something before. */
export function listen(url: string, hear: Hear, outage: Outage): Wake {
  const heard = (notice: string) => {
    outage.worked('listen')
    hear(notice)
  }
  return listenTo(
    { url, channel: CHANNEL, application: 'assay-jobs' },
    {
      joined: () => heard('missed'),
      heard,
      lost: (error) => {
        if (error !== undefined) outage.failed('listen', error)
      },
    },
  )
}
