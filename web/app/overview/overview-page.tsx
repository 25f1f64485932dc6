import { Link, type LinkProps, linkOptions } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { BatchRun } from '../../../src/batches/schema.ts'
import type { Comparison } from '../../../src/comparisons/shapes/schema.ts'
import type { Repository } from '../../../src/repos/schema.ts'
import type { HealthCheck } from '../../../src/workspaces/schema.ts'
import { plural, usd } from '../../components/format.ts'
import { useRead } from '../api/use-api.ts'
import { ComparisonsTable } from '../comparisons/comparisons-page.tsx'
import { nameScope, toComparisonLink } from '../comparisons/scope.ts'
import { CopyText } from '../components/copy-text.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Fact, Page } from '../components/page.tsx'
import {
  listBatches,
  listBenchmarks,
  listRepositories,
  listWorkspaceComparisons,
  readDoctor,
  readSpend,
} from '../endpoints.gen.ts'
import { useSession } from '../session/session.tsx'

const REFRESH_MS = 5000
const HEALTH_REFRESH_MS = 60_000
const COMPARISONS_MAX = 50
const BATCHES_MAX = 20

/** Shows problems first, then running work, then benchmarks and repositories. */
export function OverviewPage() {
  const { org } = useSession()
  const comparisons = useRead(
    listWorkspaceComparisons,
    { query: { limit: COMPARISONS_MAX } },
    { refetchMs: REFRESH_MS },
  )
  const health = useRead(readDoctor, {}, { refetchMs: HEALTH_REFRESH_MS })
  return (
    <Page title="Overview" crumbs={`workspace ${org}`}>
      <Loaded query={comparisons}>
        {({ evaluations }) => (
          <>
            <AttentionCard comparisons={evaluations} checks={health.data?.checks ?? []} />
            {evaluations.length === 0 ? <Onboarding /> : <RecentComparisons comparisons={evaluations} />}
          </>
        )}
      </Loaded>
      <SpendFact />
      <div className="columns">
        <BenchmarksCard />
        <RepositoriesCard />
      </div>
    </Page>
  )
}

type AttentionCardProps = { comparisons: readonly Comparison[]; checks: readonly HealthCheck[] }

function AttentionCard({ comparisons, checks }: AttentionCardProps) {
  const stoppedComparisons = comparisons.filter(({ state }) => state === 'paused' || state === 'submission_failed')
  const failedChecks = checks.filter(({ ok }) => !ok)
  if (stoppedComparisons.length === 0 && failedChecks.length === 0) return null
  return (
    <Card title="Needs attention">
      <ul className="rows">
        {stoppedComparisons.map(({ id, scope, pause, submissionError }) => (
          <li key={id}>
            <span className="attention">!</span>{' '}
            <Link {...toComparisonLink(scope, id)}>
              <bdi>{nameScope(scope)}</bdi>
            </Link>{' '}
            <bdi className="muted">{pause?.message ?? submissionError?.message}</bdi>
          </li>
        ))}
        {failedChecks.map(({ name, detail, fix }) => (
          <li key={name}>
            <span className="attention">!</span> Check failed: {name}{' '}
            <bdi className="muted">{[detail, fix].filter(Boolean).join(' · ')}</bdi>
          </li>
        ))}
      </ul>
    </Card>
  )
}

const SPEND_DAYS = 30

/** Shows the spend of the last 30 days. Renders nothing if nothing was spent. */
function SpendFact() {
  const { data } = useRead(readSpend, { query: { days: SPEND_DAYS } })
  if (!data || data.costUsd === 0) return null
  return (
    <div className="cards">
      <Fact
        label={`spent in the last ${SPEND_DAYS} days`}
        value={usd(data.costUsd)}
        note={<Link to="/settings/spend">By day, provider and setting</Link>}
      />
    </div>
  )
}

const RECENT_SHOWN_MAX = 8

function RecentComparisons({ comparisons }: { comparisons: readonly Comparison[] }) {
  const running = comparisons.filter(({ state }) => state === 'running' || state === 'submitting')
  const title = running.length === 0 ? 'Comparisons' : `Comparisons, ${running.length} running`
  const shown = [...running, ...comparisons.filter((each) => !running.includes(each))].slice(0, RECENT_SHOWN_MAX)
  return (
    <Card
      title={title}
      actions={
        <Link to="/comparisons/new" className="button">
          New comparison
        </Link>
      }
    >
      <ComparisonsTable comparisons={shown} />
    </Card>
  )
}

const FIRST_STEPS = [
  {
    title: 'Run the example',
    text: 'The reference solution and a no-op on five small tasks. Needs no model and no key, and takes a minute.',
    command: 'assay benchmarks add assay/quick && assay compare assay/quick',
    link: linkOptions({ to: '/benchmarks', search: { add: 'assay/quick' } }),
    action: 'Add assay/quick',
  },
  {
    title: 'Add a dataset',
    text: 'Any dataset of the registry. Every task is checked before anything of it is executed.',
    command: 'assay benchmarks add <org>/<name>',
    link: linkOptions({ to: '/benchmarks' }),
    action: 'Go to Benchmarks',
  },
  {
    title: 'Connect a repository',
    text: 'Merged pull requests become tasks with hidden tests. Preview what a repository can supply without spending.',
    command: 'assay scan <path of a clone>',
    link: linkOptions({ to: '/repos' }),
    action: 'Go to Repositories',
  },
] as const

const Onboarding = () => (
  <div className="cards">
    {FIRST_STEPS.map(({ title, text, command, link, action }) => (
      <Card key={title} title={title}>
        <p className="muted">{text}</p>
        <p>
          <Link {...link}>{action}</Link>
        </p>
        <CopyText label={`Command: ${title.toLowerCase()}`} text={command} />
      </Card>
    ))}
  </div>
)

function BenchmarksCard() {
  const benchmarks = useRead(listBenchmarks)
  return (
    <Card title="Benchmarks">
      <Loaded query={benchmarks}>
        {({ benchmarks: all }) =>
          all.length === 0 ? (
            <Empty command="assay benchmarks add assay/quick">
              Datasets that this workspace has added appear here.
            </Empty>
          ) : (
            <ul className="rows">
              {all.map(({ datasetOrg, dataset, tasks }) => (
                <SourceRow
                  key={`${datasetOrg}/${dataset}`}
                  kind="benchmark"
                  name={`${datasetOrg}/${dataset}`}
                  link={linkOptions({ to: '/benchmarks/$datasetOrg/$dataset', params: { datasetOrg, dataset } })}
                  note={plural(tasks, 'task')}
                />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  )
}

function RepositoriesCard() {
  const repositories = useRead(listRepositories)
  return (
    <Card title="Repositories">
      <Loaded query={repositories}>
        {({ repos }) =>
          repos.length === 0 ? (
            <Empty command="assay repos connect <owner>/<name>">
              Connected repositories appear here with their tasks.
            </Empty>
          ) : (
            <ul className="rows">
              {repos.map((repository) => (
                <RepositoryRow key={repository.fullName} repository={repository} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  )
}

/** A repository with the number of tasks to review in its newest batch that has any. */
function RepositoryRow({ repository: { owner, name, fullName, visibility } }: { repository: Repository }) {
  const { data } = useRead(listBatches, { params: { owner, name }, query: { limit: BATCHES_MAX } })
  const batchToReview = data?.batches.find((batch) => countUndecided(batch) > 0)
  return (
    <SourceRow
      kind="repository"
      name={fullName}
      link={linkOptions({ to: '/repos/$owner/$name', params: { owner, name } })}
      note={
        batchToReview ? (
          <Link to="/repos/$owner/$name/batches/$runId/review" params={{ owner, name, runId: batchToReview.runId }}>
            {plural(countUndecided(batchToReview), 'task')} to review
          </Link>
        ) : (
          visibility
        )
      }
    />
  )
}

const countUndecided = ({ counts: { ready, approved, declined } }: BatchRun): number => ready - approved - declined

type SourceRowProps = { kind: 'benchmark' | 'repository'; name: string; link: LinkProps; note: ReactNode }

/** A benchmark or repository, with a link to the form of a comparison on its tasks. */
const SourceRow = ({ kind, name, link, note }: SourceRowProps) => (
  <li className="row-line">
    <Link {...link}>
      <bdi>{name}</bdi>
    </Link>
    <span className="muted">{note}</span>
    <Link to="/comparisons/new" search={{ on: `${kind} ${name}` }}>
      Compare
    </Link>
  </li>
)
