import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { memo } from 'react'
import type { Comparison, TrialChange } from '../../../src/comparisons/shapes/schema.ts'
import { Card, Empty } from '../components/page.tsx'
import { isOpen, toActivityKey } from './live.ts'
import { CLASS_NAMES, createNameShortener } from './text.ts'

/**
 * Lists the trials that started or ended last while the page is open. Renders nothing for a comparison that has ended,
 * unless it ended while the page was open.
 */
export function ActivityCard({ comparison, isLive }: { comparison: Comparison; isLive: boolean }) {
  const queries = useQueryClient()
  const queryKey = toActivityKey(comparison.id)
  // Events write the changes into the cache. The query itself never reads anything.
  const { data: changes = [] } = useQuery({
    queryKey,
    queryFn: () => queries.getQueryData<readonly TrialChange[]>(queryKey) ?? [],
    enabled: false,
    subscribed: isLive,
  })
  if (!isOpen(comparison) && changes.length === 0) return null
  const shorten = createNameShortener(comparison.settings)
  const shortNames = new Map(comparison.settings.map((setting) => [setting.id, shorten(setting)]))
  return (
    <Card title="Activity">
      {changes.length === 0 ? (
        <Empty>Trials appear here as they start and end.</Empty>
      ) : (
        <ul className="rows activity">
          {changes.map((change) => (
            <ActivityRow
              key={`${change.id} ${change.state}`}
              change={change}
              settingName={shortNames.get(change.settingId) ?? change.settingId}
            />
          ))}
        </ul>
      )}
    </Card>
  )
}

type ActivityRowProps = { change: TrialChange; settingName: string }

/** Memoized, because links take time to render and a row does not change after it has appeared. */
const ActivityRow = memo(({ change, settingName }: ActivityRowProps) => (
  <li>
    <span className={`mark ${change.state}`} />
    <Link to="/trials/$trialId" params={{ trialId: change.id }}>
      <bdi>{change.task}</bdi>
    </Link>
    <span className="muted">
      <bdi>{settingName}</bdi> · {describeChange(change)}
    </span>
  </li>
))

function describeChange({ state, class: trialClass }: TrialChange): string {
  if (state === 'running') return 'started'
  if (state === 'queued') return 'waits for another attempt'
  const reason = trialClass && CLASS_NAMES[trialClass].toLowerCase()
  if (state === 'failed') return reason ?? 'failed'
  if (state === 'errored') return reason ? `not scored: ${reason}` : 'not scored'
  return state
}
