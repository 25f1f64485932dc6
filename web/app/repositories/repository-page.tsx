import { Link, useParams } from '@tanstack/react-router'
import type { BatchRun } from '../../../src/batches/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import type { BatchPreview } from '../../../src/taskgen/schema.ts'
import { plural, usd } from '../../components/format.ts'
import { useChange, useRead } from '../api/use-api.ts'
import { ComparisonsTable } from '../comparisons/comparisons-page.tsx'
import { ConfirmButton } from '../components/confirm-button.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { formatTime } from '../components/times.ts'
import { cancelBatch, inRepository, listBatches, previewBatch, readRepository, resumeBatch } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'
import { AddTasksCard } from './add-tasks-card.tsx'

const ROUTE = '/repos/$owner/$name'
const REFRESH_MS = 3000

/** Shows a repository: batches with live counts, approved tasks, and how many tasks its pull requests could supply. */
export function RepositoryPage() {
  const params = useParams({ from: ROUTE })
  const repository = useRead(readRepository, { params })
  const batches = useRead(listBatches, { params, query: { limit: 50 } }, { refetchMs: REFRESH_MS })
  const comparisonOptions = useRead(inRepository.options, { params })
  const comparisons = useRead(inRepository.list, { params, query: { limit: 50 } })
  return (
    <Page
      title={`${params.owner}/${params.name}`}
      crumbs={<Link to="/repos">Repositories</Link>}
      state={repository.data && <span className="chip">{repository.data.visibility}</span>}
      actions={
        <Link to="/repos/$owner/$name/publish" params={params} className="button">
          Releases
        </Link>
      }
    >
      {repository.isError && <ProblemNote error={repository.error} />}
      <Card title="Batches">
        <Loaded query={batches}>
          {(loaded) =>
            loaded.batches.length === 0 ? (
              <Empty command={`assay batches create --repo ${params.owner}/${params.name} --easy 5`}>
                Batches of tasks appear here with the progress of each stage.
              </Empty>
            ) : (
              <ul className="rows">
                {loaded.batches.map((batch) => (
                  <BatchRow key={batch.runId} batch={batch} />
                ))}
              </ul>
            )
          }
        </Loaded>
      </Card>
      <AddTasksCard />
      <Card title="Comparisons">
        <Loaded query={comparisons}>
          {({ evaluations }) =>
            evaluations.length === 0 ? (
              <Empty command={`assay compare --repo ${params.owner}/${params.name}`}>
                Comparisons on approved tasks of this repository appear here, newest first.
              </Empty>
            ) : (
              <ComparisonsTable comparisons={evaluations} />
            )
          }
        </Loaded>
      </Card>
      <PullRequestsCard />
      <Card title="Approved tasks">
        <Loaded query={comparisonOptions}>
          {({ tasks }) =>
            tasks.length === 0 ? (
              <Empty command={`assay batches review <run> --repo ${params.owner}/${params.name}`}>
                Tasks that were approved in a review appear here and can be compared on.
              </Empty>
            ) : (
              <ul className="rows">
                {tasks.map(({ runId, taskId, title, difficulty }) => (
                  <li key={`${runId} ${taskId}`} className="row-line">
                    <Link
                      to="/repos/$owner/$name/batches/$runId/review"
                      params={{ ...params, runId }}
                      search={{ task: taskId }}
                    >
                      <bdi>{replaceUnsafeCharacters(title || taskId)}</bdi>
                    </Link>
                    <span className="muted">{difficulty}</span>
                  </li>
                ))}
              </ul>
            )
          }
        </Loaded>
      </Card>
    </Page>
  )
}

/** Counts of a batch that are shown. An import has no stages in which a model or a sandbox creates the task. */
const GENERATION_COUNTS = ['discovered', 'screened', 'executed', 'authored', 'validated', 'verified', 'ready'] as const
const IMPORT_COUNTS = ['discovered', 'screened', 'ready'] as const

function BatchRow({ batch }: { batch: BatchRun }) {
  const params = useParams({ from: ROUTE })
  const { runId, state, createdAt, counts, generation, rejections, waiting, costUsd, error } = batch
  const undecided = counts.ready - counts.approved - counts.declined
  const isImport = generation === null
  const shownCounts = isImport ? IMPORT_COUNTS : GENERATION_COUNTS
  const problem = waiting?.detail ?? error?.message
  return (
    <li>
      <p className="row-line">
        <Link to="/repos/$owner/$name/batches/$runId/review" params={{ ...params, runId }}>
          {isImport ? 'Import' : 'Batch'} of {formatTime(createdAt)}
        </Link>
        <span className="actions">
          <span className="muted">
            {state} · {plural(undecided, 'task')} to review · {counts.approved} approved · {usd(costUsd)}
          </span>
          <BatchControls batch={batch} />
        </span>
      </p>
      <ul className="stages small">
        {shownCounts.map((name) => (
          <li key={name}>
            <strong>{counts[name]}</strong> <span className="muted">{name}</span>
          </li>
        ))}
        <li>
          <strong>{counts.rejected}</strong> <span className="muted">rejected</span>
        </li>
      </ul>
      <RejectionReasons reasons={rejections} />
      {problem !== undefined && (
        <p className="small fail-mark">
          <bdi>{replaceUnsafeCharacters(problem)}</bdi>
        </p>
      )}
    </li>
  )
}

const RESUMABLE_STATES: readonly BatchRun['state'][] = ['waiting', 'failed', 'canceled']
const CANCELABLE_STATES: readonly BatchRun['state'][] = ['queued', 'discovering', 'running', 'waiting']

function BatchControls({ batch: { runId, state, createdAt } }: { batch: BatchRun }) {
  const params = { ...useParams({ from: ROUTE }), runId }
  const resume = useChange(resumeBatch, { invalidates: [listBatches] })
  const cancel = useChange(cancelBatch, { invalidates: [listBatches] })
  const error = resume.error ?? cancel.error
  if (!useHasPermission('write')) return null
  return (
    <>
      {RESUMABLE_STATES.includes(state) && (
        <button
          type="button"
          className="button"
          disabled={resume.isPending}
          onClick={() => resume.mutate({ params, body: {} })}
        >
          Resume
        </button>
      )}
      {CANCELABLE_STATES.includes(state) && (
        <ConfirmButton
          label={`Cancel the batch of ${formatTime(createdAt)}`}
          isPending={cancel.isPending}
          onConfirm={() => cancel.mutate({ params })}
        >
          Cancel
        </ConfirmButton>
      )}
      {error && <ProblemNote error={error} />}
    </>
  )
}

function RejectionReasons({ reasons }: { reasons: Readonly<Record<string, number>> }) {
  const sorted = Object.entries(reasons).sort(([, a], [, b]) => b - a)
  if (sorted.length === 0) return null
  return (
    <ul className="reasons small muted">
      {sorted.map(([reason, count]) => (
        <li key={reason}>
          {count} {replaceUnsafeCharacters(reason.replaceAll('_', ' '))}
        </li>
      ))}
    </ul>
  )
}

/** Counts the pull requests that could become tasks. Runs on demand, because it reads the whole history. */
function PullRequestsCard() {
  const params = useParams({ from: ROUTE })
  const scan = useChange(previewBatch)
  return (
    <Card
      title="Pull requests"
      actions={
        <button type="button" className="button" disabled={scan.isPending} onClick={() => scan.mutate({ params })}>
          {scan.isPending ? 'Scanning…' : 'Scan'}
        </button>
      }
    >
      {scan.isError && <ProblemNote error={scan.error} />}
      {scan.data ? (
        <ScanResult preview={scan.data} />
      ) : (
        <Empty command={`assay batches preview --repo ${params.owner}/${params.name}`}>
          A scan counts the merged pull requests that could become tasks, with the reasons for the rest. Nothing runs.
        </Empty>
      )}
    </Card>
  )
}

function ScanResult({ preview }: { preview: BatchPreview }) {
  const { pullRequests, buckets, rejections, branch } = preview
  return (
    <>
      <p>
        {plural(pullRequests, 'merged pull request')} on <bdi>{replaceUnsafeCharacters(branch)}</bdi>. Untried
        candidates: {buckets.easy.available} easy, {buckets.medium.available} medium, {buckets.hard.available} hard.
      </p>
      <ul className="rows small">
        {rejections.map(({ reason, meaning, count }) => (
          <li key={reason} className="row-line">
            <span>{meaning}</span>
            <span className="muted">{count}</span>
          </li>
        ))}
      </ul>
    </>
  )
}
