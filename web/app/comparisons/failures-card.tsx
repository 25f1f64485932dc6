import { memo } from 'react'
import type { Comparison } from '../../../src/comparisons/shapes/schema.ts'
import type { FailureGroup } from '../../../src/comparisons/trials/failures/schema.ts'
import { plural } from '../../components/format.ts'
import { useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty } from '../components/page.tsx'
import type { ComparisonTarget } from './scope.ts'
import { CLASS_NAMES } from './text.ts'

const REFRESH_MS = 10_000
const SIGNATURES_SHOWN_MAX = 6

type FailuresCardProps = { target: ComparisonTarget; comparison: Comparison; isLive: boolean }

/** Lists failed and unscored trials by class, each with the messages that its trials have in common. */
export function FailuresCard({ target, comparison, isLive }: FailuresCardProps) {
  const refetchMs = comparison.state === 'running' ? REFRESH_MS : undefined
  const failures = useRead(target.endpoints.failures, target.input, { refetchMs, subscribed: isLive })
  return (
    <Card title="Failures by cause">
      <Loaded query={failures}>
        {({ groups }) =>
          groups.length === 0 ? (
            <Empty>Trials that fail, or that have no result, are grouped here by cause.</Empty>
          ) : (
            <FailureList groups={groups} />
          )
        }
      </Loaded>
    </Card>
  )
}

const FailureList = memo(({ groups }: { groups: readonly FailureGroup[] }) => {
  const classes = [...Map.groupBy(groups, (group) => `${group.state} ${group.class}`).values()]
    .map((classGroups) => ({ classGroups, trialCount: classGroups.reduce((sum, { trials }) => sum + trials, 0) }))
    .toSorted((a, b) => b.trialCount - a.trialCount)
  const largestCount = classes[0]?.trialCount ?? 1
  return (
    <ul className="rows failures">
      {classes.map(({ classGroups, trialCount }) => {
        const [first] = classGroups
        if (!first) return null
        const isErrored = first.state === 'errored'
        return (
          <li key={`${first.state} ${first.class}`}>
            <div className="failure-line">
              <span>
                {isErrored && <span className="muted">Not scored: </span>}
                {CLASS_NAMES[first.class]}
              </span>
              <span className="number">{trialCount}</span>
              <span className="failure-bar" aria-hidden="true">
                <i className={isErrored ? 'wait' : ''} style={{ width: `${(100 * trialCount) / largestCount}%` }} />
              </span>
            </div>
            <Signatures groups={classGroups} />
          </li>
        )
      })}
    </ul>
  )
})

/** Lists the messages of failures without the details in which they differ. */
function Signatures({ groups }: { groups: readonly FailureGroup[] }) {
  const groupsWithSignature = groups.filter(({ signature }) => signature !== null).slice(0, SIGNATURES_SHOWN_MAX)
  if (groupsWithSignature.length === 0) return null
  return (
    <ul className="signatures small muted">
      {groupsWithSignature.map(({ signature, trials, settings, tasks }) => (
        <li key={signature}>
          <bdi>{signature?.replace(/\.$/, '')}</bdi>
          <span className="faint">
            {' · '}
            {trials} × in {plural(settings.length, 'setting')}, {plural(tasks, 'task')}
          </span>
        </li>
      ))}
    </ul>
  )
}
