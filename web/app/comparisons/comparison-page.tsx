import { Link } from '@tanstack/react-router'
import { Loaded } from '../components/loaded.tsx'
import { Page } from '../components/page.tsx'
import { useHasPermission } from '../session/session.tsx'
import { Controls } from './controls.tsx'
import { useLiveComparison } from './live.ts'
import { AnswerCard, ProgressCards, StateChip, StreamNote } from './progress.tsx'
import { Results } from './results.tsx'
import { type ComparisonProps, type ComparisonTarget, toPairLink, useComparisonTarget } from './scope.ts'

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
        {(loaded) => (
          <>
            <AnswerCard comparison={loaded} />
            <ProgressCards target={target} comparison={loaded} />
            <Results key={loaded.id} target={target} comparison={loaded} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

const Crumbs = ({ target: { scope, input } }: { target: ComparisonTarget }) => (
  <>
    <Link to="/comparisons">Comparisons</Link> · {scope.kind} · {input.params.comparisonId.slice(0, 8)}
  </>
)

const Actions = ({ target, comparison }: ComparisonProps) => (
  <>
    {comparison.settings.length > 1 && (
      <Link {...toPairLink(target.scope, comparison.id, {})} className="button">
        Compare two settings
      </Link>
    )}
    <PublishLink target={target} comparison={comparison} />
    <Controls target={target} comparison={comparison} />
  </>
)

/** Links to the page that publishes the results. Only results of repositories can be published. */
function PublishLink({ target: { scope }, comparison }: ComparisonProps) {
  const mayPublish = useHasPermission('write')
  if (!mayPublish || scope.kind !== 'repository' || comparison.state !== 'completed') return null
  const { owner, name } = scope
  return (
    <Link to="/repos/$owner/$name/publish" params={{ owner, name }} className="button">
      Publish
    </Link>
  )
}
