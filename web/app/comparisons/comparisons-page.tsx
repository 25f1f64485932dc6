import { Link } from '@tanstack/react-router'
import type { Comparison } from '../../../src/comparisons/shapes/schema.ts'
import { formatCount, formatInterval, percent, usd } from '../../components/format.ts'
import { useRead } from '../api/use-api.ts'
import { DataTable } from '../components/data-table.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { formatTime } from '../components/times.ts'
import { listWorkspaceComparisons } from '../endpoints.gen.ts'
import { StateChip } from './progress.tsx'
import { nameScope, toComparisonLink } from './scope.ts'
import { findLeader, nameSetting } from './text.ts'

const REFRESH_MS = 5000
const COMPARISONS_MAX = 100

export function ComparisonsPage() {
  const comparisons = useRead(
    listWorkspaceComparisons,
    { query: { limit: COMPARISONS_MAX } },
    { refetchMs: REFRESH_MS },
  )
  return (
    <Page
      title="Comparisons"
      actions={
        <Link to="/comparisons/new" className="button primary">
          New comparison
        </Link>
      }
    >
      <Loaded query={comparisons}>
        {({ evaluations }) =>
          evaluations.length === 0 ? (
            <Card>
              <Empty command="assay compare assay/quick">
                Comparisons of this workspace appear here. One runs models, coding agents and reasoning levels on the
                same tasks and says which setting to use.
              </Empty>
            </Card>
          ) : (
            <Card>
              <ComparisonsTable comparisons={evaluations} />
            </Card>
          )
        }
      </Loaded>
    </Page>
  )
}

export function ComparisonsTable({ comparisons }: { comparisons: readonly Comparison[] }) {
  return (
    <DataTable
      label="Comparisons"
      heads={['Tasks of', 'State', 'Leading', '#Solved', '#USD per task', '#Trials', '#USD', '#Created']}
    >
      {comparisons.map((comparison) => (
        <ComparisonRow key={comparison.id} comparison={comparison} />
      ))}
    </DataTable>
  )
}

function ComparisonRow({ comparison }: { comparison: Comparison }) {
  const { id, scope, trials, costUsd, createdAt } = comparison
  const leader = findLeader(comparison)
  const endedTrials = trials.passed + trials.failed + trials.errored
  return (
    <tr>
      <td>
        <Link {...toComparisonLink(scope, id)}>
          <bdi>{nameScope(scope)}</bdi>
        </Link>{' '}
        <span className="small faint">{id.slice(0, 8)}</span>
      </td>
      <td>
        <StateChip comparison={comparison} />
      </td>
      <td className="setting">
        <bdi>{leader ? nameSetting(leader) : '–'}</bdi>
      </td>
      <td className="number">
        {leader?.accuracy == null ? '–' : percent(leader.accuracy)}{' '}
        {leader?.stats.ci95 && <span className="small muted">{formatInterval(leader.stats.ci95)}</span>}
      </td>
      <td className="number">{leader?.costPerTaskUsd == null ? '–' : usd(leader.costPerTaskUsd)}</td>
      <td className="number">
        {formatCount(endedTrials)} of {formatCount(trials.total)}
      </td>
      <td className="number">{usd(costUsd)}</td>
      <td className="number">{formatTime(createdAt)}</td>
    </tr>
  )
}
