import { Link, useNavigate } from '@tanstack/react-router'
import { memo, useDeferredValue, useState } from 'react'
import type { Comparison, ComparisonMatrix } from '../../../src/comparisons/shapes/schema.ts'
import { useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { useMay } from '../session/session.tsx'
import { CellCard } from './cell-card.tsx'
import { Controls } from './controls.tsx'
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
  const id = target.input.params.comparisonId
  return (
    <Page
      title={target.name}
      crumbs={
        <>
          <Link to="/comparisons">Comparisons</Link> · {target.scope.kind} · {id.slice(0, 8)}
        </>
      }
      state={
        data && (
          <>
            <StateChip comparison={data} />
            <StreamNote stream={stream} />
          </>
        )
      }
      actions={
        data && (
          <>
            {data.settings.length > 1 && (
              <Link {...toPairLink(target.scope, id, {})} className="button">
                Compare two settings
              </Link>
            )}
            <PublishLink target={target} comparison={data} />
            <Controls target={target} comparison={data} />
          </>
        )
      }
    >
      <Loaded query={comparison}>
        {(status) => (
          <>
            <AnswerCard comparison={status} />
            <ProgressCards comparison={status} />
            <MapSection target={target} comparison={status} />
            <DeferredResults target={target} comparison={status} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

type ResultsProps = { target: ComparisonTarget; comparison: Comparison }

/** Results change with every trial and are long. They are rendered in pieces after the map, which stays responsive. */
const DeferredResults = ({ target, comparison }: ResultsProps) => (
  <Results target={target} comparison={useDeferredValue(comparison)} />
)

const Results = memo(
  ({ target, comparison }: ResultsProps) => (
    <>
      <div className="columns">
        <FrontierChart comparison={comparison} />
        <FailuresCard target={target} comparison={comparison} />
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
  const status = useDeferredValue(comparison)
  return <Loaded query={matrix}>{(cells) => <MapContent target={target} comparison={status} matrix={cells} />}</Loaded>
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
