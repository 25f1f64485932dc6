import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import type { Benchmark, BenchmarkTask } from '../../../src/benchmarks/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { formatDate, plural } from '../../components/format.ts'
import type { ApiBody } from '../api/api.ts'
import { useChange, useRead } from '../api/use-api.ts'
import { ComparisonsTable } from '../comparisons/comparisons-page.tsx'
import { ConfirmButton } from '../components/confirm-button.tsx'
import { DataTable } from '../components/data-table.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Fact, Page } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { addBenchmark, inBenchmark, listBenchmarks, readBenchmark, removeBenchmark } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'
import { describeCalibration } from './calibration-text.ts'
import { FindingsList } from './findings-list.tsx'
import { TaskFilesCard } from './task-files-card.tsx'

const ROUTE = '/benchmarks/$datasetOrg/$dataset'
const REFRESH_MS = 5000

/** A benchmark: what the safety check and the calibration found, its tasks, and the comparisons on it. */
export function BenchmarkPage() {
  const params = useParams({ from: ROUTE })
  const { task: openTask } = useSearch({ from: ROUTE })
  const benchmark = useRead(readBenchmark, { params }, { refetchMs: REFRESH_MS })
  const comparisons = useRead(inBenchmark.list, { params, query: { limit: 50 } })
  const name = `${params.datasetOrg}/${params.dataset}`
  return (
    <Page
      title={name}
      crumbs={<Link to="/benchmarks">Benchmarks</Link>}
      actions={
        <>
          <Link to="/comparisons/new" search={{ on: `benchmark ${name}` }} className="button primary">
            Compare
          </Link>
          {benchmark.data && <BenchmarkControls benchmark={benchmark.data} />}
        </>
      }
    >
      <Loaded query={benchmark}>{(found) => <BenchmarkFacts benchmark={found} />}</Loaded>
      <Card title="Comparisons">
        <Loaded query={comparisons}>
          {({ evaluations }) =>
            evaluations.length === 0 ? (
              <Empty command={`assay compare ${name}`}>Comparisons on this benchmark appear here.</Empty>
            ) : (
              <ComparisonsTable comparisons={evaluations} />
            )
          }
        </Loaded>
      </Card>
      <Loaded query={benchmark}>
        {({ taskList, check }) => (
          <>
            <TasksCard tasks={taskList} warnings={check.warnings} openTask={openTask} />
            {openTask !== undefined && <TaskFilesCard key={openTask} taskName={openTask} />}
            {check.warnings.length > 0 && (
              <Card title="Warnings of the safety check">
                <FindingsList findings={check.warnings} />
              </Card>
            )}
          </>
        )}
      </Loaded>
    </Page>
  )
}

function BenchmarkFacts({ benchmark }: { benchmark: ApiBody<typeof readBenchmark> }) {
  const { tasks, ref, resolvedRef, digest, addedAt, check, calibration, description } = benchmark
  return (
    <>
      {description !== '' && (
        <p className="muted">
          <bdi>{replaceUnsafeCharacters(description)}</bdi>
        </p>
      )}
      <div className="cards">
        <Fact label="tasks" value={tasks} note={`added on ${formatDate(addedAt)}`} />
        <Fact
          label="version"
          value={<bdi>{replaceUnsafeCharacters(ref).slice(0, 30)}</bdi>}
          note={<bdi>{replaceUnsafeCharacters(resolvedRef === ref ? digest : resolvedRef)}</bdi>}
        />
        <Fact
          label="safety check"
          value="passed"
          note={`${plural(check.warnings.length, 'warning')} · rules ${check.ruleset}`}
        />
        <Fact
          label="calibration"
          value={describeCalibration(benchmark)}
          note={calibration && `in the sandbox ${calibration.sandbox}`}
        />
      </div>
    </>
  )
}

function BenchmarkControls({ benchmark }: { benchmark: Benchmark }) {
  const { datasetOrg, dataset, reference, calibration, tasks } = benchmark
  const navigate = useNavigate()
  const calibrate = useChange(addBenchmark, { invalidates: [readBenchmark, listBenchmarks] })
  const remove = useChange(removeBenchmark, {
    invalidates: [listBenchmarks],
    onDone: () => void navigate({ to: '/benchmarks' }),
  })
  if (!useHasPermission('write')) return null
  const isCalibrated = (calibration?.done ?? 0) >= tasks
  return (
    <>
      {!isCalibrated && (
        <button
          type="button"
          className="button"
          disabled={calibrate.isPending}
          onClick={() => calibrate.mutate({ body: { reference, calibrate: true } })}
        >
          Calibrate
        </button>
      )}
      <ConfirmButton
        label={`Remove ${datasetOrg}/${dataset}`}
        isPending={remove.isPending}
        onConfirm={() => remove.mutate({ params: { datasetOrg, dataset } })}
      >
        Remove
      </ConfirmButton>
      {calibrate.isError && <ProblemNote error={calibrate.error} />}
      {remove.isError && <ProblemNote error={remove.error} />}
    </>
  )
}

type TasksCardProps = {
  tasks: readonly BenchmarkTask[]
  warnings: Benchmark['check']['warnings']
  /** Name of the task whose files are shown. */
  openTask: string | undefined
}

function TasksCard({ tasks, warnings, openTask }: TasksCardProps) {
  const params = useParams({ from: ROUTE })
  const warningsByTask = Map.groupBy(warnings, ({ task }) => task)
  return (
    <Card title="Tasks">
      <DataTable label="Tasks" heads={['Task', 'Verify mode', 'Strength', 'Cheats that pass', '#Warnings']}>
        {tasks.map(({ name, calibration }) => (
          <tr key={name}>
            <td>
              <Link
                to={ROUTE}
                params={params}
                search={{ task: name }}
                resetScroll={false}
                aria-current={name === openTask ? 'true' : undefined}
              >
                <bdi>{replaceUnsafeCharacters(name)}</bdi>
              </Link>
            </td>
            <td>{formatVerifyMode(calibration)}</td>
            <td>
              <StrengthCell calibration={calibration} />
            </td>
            <td>{calibration?.winners.join(', ')}</td>
            <td className="number">{warningsByTask.get(name)?.length ?? 0}</td>
          </tr>
        ))}
      </DataTable>
    </Card>
  )
}

/** Formats the verify mode. Empty after an error, which the column of the strength shows. */
function formatVerifyMode(calibration: BenchmarkTask['calibration']): string {
  if (calibration?.error) return calibration.verifyMode ?? ''
  return calibration?.verifyMode ?? '–'
}

const STRENGTH_MARKS = { weak: '! weak', standard: '✓ standard', strong: '✓ strong' } as const

function StrengthCell({ calibration }: Pick<BenchmarkTask, 'calibration'>) {
  if (!calibration) return <span className="muted">not calibrated</span>
  const { strength, error } = calibration
  if (error)
    return (
      <span className="fail-mark">
        × <bdi>{replaceUnsafeCharacters(error)}</bdi>
      </span>
    )
  if (!strength) return <span className="muted">–</span>
  return <span className={strength === 'weak' ? 'fail-mark' : 'pass-mark'}>{STRENGTH_MARKS[strength]}</span>
}
