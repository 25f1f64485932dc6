import { Link, useNavigate } from '@tanstack/react-router'
import { memo, useState } from 'react'
import type { Comparison, ComparisonMatrix } from '../../../src/comparisons/shapes/schema.ts'
import { useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { useDelayed } from '../components/use-delayed.ts'
import { useMay } from '../session/session.tsx'
import { ActivityCard } from './activity-card.tsx'
import { CellCard } from './cell-card.tsx'
import { Controls, hasUnscored } from './controls.tsx'
import type { MapCell } from './draw-map.ts'
import { FailuresCard } from './failures-card.tsx'
import { FrontierChart } from './frontier-chart.tsx'
import { useLiveComparison } from './live.ts'
import { PairTable } from './pair-table.tsx'
import { AnswerCard, ProgressCards, StateChip, StreamNote } from './progress.tsx'
import { type ComparisonTarget, toPairLink, toTaskLink, useComparisonTarget } from './scope.ts'
import { SettingsTable } from './settings-table.tsx'
import { TrialMap } from './trial-map.tsx'

export function ComparisonPage() {
  const target = useComparisonTarget()
  const { comparison, stream } = useLiveComparison(target)
  const { data } = comparison
  return (
    <Page
      title={target.name}
      crumbs={<Crumbs target={target} />}
      state={
        data && (
          <>
            <StateChip comparison={data} />
            <StreamNote stream={stream} />
          </>
        )
      }
      actions={data && <Actions target={target} comparison={data} />}
    >
      <Loaded query={comparison}>
        {(status) => (
          <>
            <AnswerCard comparison={status} />
            <ProgressCards comparison={status} />
            <DelayedResults key={status.id} target={target} comparison={status} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

const Crumbs = memo(({ target: { scope, input } }: { target: ComparisonTarget }) => (
  <>
    <Link to="/comparisons">Comparisons</Link> · {scope.kind} · {input.params.comparisonId.slice(0, 8)}
  </>
))

type ResultsProps = { target: ComparisonTarget; comparison: Comparison }

/** Rendered again only if another action becomes possible: links take time, and counts change with every trial. */
const Actions = memo(
  ({ target, comparison }: ResultsProps) => (
    <>
      {comparison.settings.length > 1 && (
        <Link {...toPairLink(target.scope, comparison.id, {})} className="button">
          Compare two settings
        </Link>
      )}
      <PublishLink target={target} comparison={comparison} />
      <Controls target={target} comparison={comparison} />
    </>
  ),
  (before, after) =>
    before.target === after.target &&
    before.comparison.state === after.comparison.state &&
    before.comparison.settings.length === after.comparison.settings.length &&
    hasUnscored(before.comparison) === hasUnscored(after.comparison),
)

/** Time after which results follow a trial. The map itself is live. */
const RESULTS_MS = 500

/** Results change with every trial and are long. They are rendered after the frame that shows the trial on the map. */
function DelayedResults({ target, comparison }: ResultsProps) {
  const delayed = useDelayed(comparison, RESULTS_MS)
  return <Results target={target} comparison={delayed} />
}

const Results = memo(
  ({ target, comparison }: ResultsProps) => (
    <>
      <MapSection target={target} comparison={comparison} />
      <div className="columns">
        <FrontierChart comparison={comparison} />
        <div className="stack">
          <FailuresCard target={target} comparison={comparison} />
          <ActivityCard comparison={comparison} />
        </div>
      </div>
      <SettingsTable comparison={comparison} />
      <PairTable target={target} comparison={comparison} />
    </>
  ),
  (before, after) => before.comparison === after.comparison,
)

/** Leads from the results of a repository to their publication. Only results of repositories can be published. */
function PublishLink({ target: { scope }, comparison }: { target: ComparisonTarget; comparison: Comparison }) {
  if (!useMay('write') || scope.kind !== 'repository' || comparison.state !== 'completed') return null
  const { owner, name } = scope
  return (
    <Link to="/repos/$owner/$name/publish" params={{ owner, name }} className="button">
      Publish
    </Link>
  )
}

/** The matrix changes with every trial. It is read here, so that only the map is rendered again. */
function MapSection({ target, comparison }: ResultsProps) {
  const matrix = useRead(target.endpoints.matrix, target.input)
  return (
    <Loaded query={matrix}>{(cells) => <MapContent target={target} comparison={comparison} matrix={cells} />}</Loaded>
  )
}

type MapContentProps = ResultsProps & { matrix: ComparisonMatrix }

function MapContent({ target, comparison, matrix }: MapContentProps) {
  const [selected, setSelected] = useState<MapCell>()
  const navigate = useNavigate()
  if (matrix.tasks.length === 0)
    return (
      <Card title="Tasks × settings">
        <Empty>Each trial appears here as a cell when the tasks have been frozen.</Empty>
      </Card>
    )
  return (
    <>
      <TrialMap
        matrix={matrix}
        settings={comparison.settings}
        selected={selected}
        onSelect={setSelected}
        onOpen={({ task }) => void navigate(toTaskLink(target.scope, comparison.id, matrix.tasks[task]?.name ?? ''))}
      />
      {selected && <CellCard target={target} comparison={comparison} matrix={matrix} cell={selected} />}
    </>
  )
}
