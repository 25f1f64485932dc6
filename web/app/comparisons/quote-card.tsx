import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useDeferredValue, useState } from 'react'
import type { Catalog } from '../../../src/catalog/schema.ts'
import type { Quote } from '../../../src/comparisons/costs/schema.ts'
import { formatCount, plural, usd } from '../../components/format.ts'
import { type Api, isRetryable } from '../api/api.ts'
import { toQueryKey, useApi, useRead } from '../api/use-api.ts'
import { CopyText } from '../components/copy-text.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { inBenchmark, inRepository, listWorkspaceComparisons } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'
import { type Draft, toCommand, toQuoteBody } from './draft.ts'
import { nameScope, type Scope, toComparisonLink } from './scope.ts'
import { formatRoughDuration } from './text.ts'

type QuoteCardProps = { scope: Scope; catalog: Catalog; draft: Draft }
type RepositoryOptions = NonNullable<ReturnType<typeof useRepositoryOptions>['data']>
type QuoteBody = NonNullable<ReturnType<typeof toQuoteBody>>

/** Shows the quote of the chosen settings, and starts the comparison. */
export function QuoteCard({ scope, catalog, draft }: QuoteCardProps) {
  const body = useDeferredValue(toQuoteBody(draft))
  return (
    <aside className="quote">
      <Card title="Quote">
        {body ? (
          <QuoteResult scope={scope} body={body} />
        ) : (
          <Empty>Cost, duration and the smallest difference that the comparison can show appear here.</Empty>
        )}
        {body && <StartButton scope={scope} catalog={catalog} draft={draft} />}
      </Card>
      {body && (
        <CopyText label="The same as a command" text={toCommand({ kind: scope.kind, name: nameScope(scope) }, draft)} />
      )}
    </aside>
  )
}

function QuoteResult({ scope, body }: { scope: Scope; body: QuoteBody }) {
  const options = useRepositoryOptions(scope)
  const tasks = listApprovedTasks(options.data)
  const isRepository = scope.kind === 'repository'
  // Hooks cannot be conditional, so both reads exist. The read for the other kind of scope is disabled.
  const onBenchmark = useRead(
    inBenchmark.quote,
    { params: toBenchmarkParams(scope), body },
    { enabled: !isRepository, keepPrevious: true },
  )
  const onRepository = useRead(
    inRepository.quote,
    { params: toRepositoryParams(scope), body: { ...body, tasks } },
    { enabled: isRepository && tasks.length > 0, keepPrevious: true },
  )
  if (isRepository && options.data === undefined) return <Loaded query={options}>{() => null}</Loaded>
  if (isRepository && tasks.length === 0)
    return (
      <Empty command={`assay batches review <run> --repo ${nameScope(scope)}`}>
        No task of this repository is approved yet.
      </Empty>
    )
  return <Loaded query={isRepository ? onRepository : onBenchmark}>{(quote) => <QuoteFacts quote={quote} />}</Loaded>
}

// A disabled read needs parameters too, which are empty.
const toBenchmarkParams = (scope: Scope) =>
  scope.kind === 'benchmark'
    ? { datasetOrg: scope.datasetOrg, dataset: scope.dataset }
    : { datasetOrg: '', dataset: '' }
const toRepositoryParams = (scope: Scope) =>
  scope.kind === 'repository' ? { owner: scope.owner, name: scope.name } : { owner: '', name: '' }

/** Reads what a comparison on a repository can use. Reads nothing for a benchmark, of which every task runs. */
const useRepositoryOptions = (scope: Scope) =>
  useRead(inRepository.options, { params: toRepositoryParams(scope) }, { enabled: scope.kind === 'repository' })

const listApprovedTasks = (options: RepositoryOptions | undefined) =>
  (options?.tasks ?? []).map(({ runId, taskId }) => ({ runId, taskId }))

function QuoteFacts({ quote }: { quote: Quote }) {
  const { costUsd, maximumCostUsd, durationSeconds, concurrency, smallestDifference } = quote
  const rows: [string, string][] = [
    ['Trials', `${formatCount(quote.trials)} (${plural(quote.tasks, 'task')}, ${plural(quote.settings, 'setting')})`],
    [
      'Expected cost',
      costUsd.high === 0 ? 'free' : `${usd(costUsd.expected)} (${usd(costUsd.low)} to ${usd(costUsd.high)})`,
    ],
    ['At most', maximumCostUsd === null ? 'no limit; set a budget' : usd(maximumCostUsd)],
    ['Time', `about ${formatRoughDuration(durationSeconds)}, ${concurrency} in parallel`],
    [
      'Smallest visible difference',
      quote.settings < 2 ? 'needs two settings' : `${Math.round(smallestDifference)} points`,
    ],
  ]
  return (
    <>
      <dl className="facts">
        {rows.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <p className="small muted">{quote.advice}</p>
    </>
  )
}

const START_RETRIES_MAX = 2

function StartButton({ scope, catalog, draft }: QuoteCardProps) {
  const api = useApi()
  const navigate = useNavigate()
  const queries = useQueryClient()
  const tasks = listApprovedTasks(useRepositoryOptions(scope).data)
  const hasTasks = scope.kind === 'benchmark' || tasks.length > 0
  // The id is chosen once, so that a retry or a second click does not create another comparison.
  const [id] = useState(() => crypto.randomUUID())
  const start = useMutation({
    mutationFn: () => createComparison(api, { scope, catalog, draft, tasks, id }),
    retry: (retries, error) => isRetryable(error) && retries < START_RETRIES_MAX,
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: toQueryKey(listWorkspaceComparisons) })
      await navigate(toComparisonLink(scope, id))
    },
  })
  if (!useHasPermission('write'))
    return <p className="small muted">This key may only read. Starting needs a key with permission write.</p>
  return (
    <>
      <button
        type="button"
        className="button primary"
        disabled={start.isPending || !hasTasks}
        onClick={() => start.mutate()}
      >
        Start comparison
      </button>
      {start.error && <ProblemNote error={start.error} />}
    </>
  )
}

type NewComparison = QuoteCardProps & { tasks: { runId: string; taskId: string }[]; id: string }

function createComparison(api: Api, { scope, catalog, draft, tasks, id }: NewComparison) {
  const body = toQuoteBody(draft)
  const sandboxCredentialId = catalog.sandboxes.find((each) => each.id === draft.sandbox)?.credentials[0]?.id
  if (!body || sandboxCredentialId === undefined)
    throw new Error('No sandbox is available. Start a worker that offers one.')
  const commonBody = { ...body, id, sandbox: draft.sandbox, sandboxCredentialId }
  return scope.kind === 'benchmark'
    ? api.call(inBenchmark.create, { params: toBenchmarkParams(scope), body: commonBody })
    : api.call(inRepository.create, { params: toRepositoryParams(scope), body: { ...commonBody, tasks } })
}
