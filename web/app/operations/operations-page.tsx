import { Link } from '@tanstack/react-router'
import type { Comparison } from '../../../src/comparisons/shapes/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import type { HealthCheck } from '../../../src/workspaces/schema.ts'
import { useChange, useRead } from '../api/use-api.ts'
import { useAnyScope } from '../comparisons/any-scope.ts'
import { isOpen } from '../comparisons/live.ts'
import { nameScope, type Scope, toComparisonLink, toTarget } from '../comparisons/scope.ts'
import { describeLimit } from '../comparisons/text.ts'
import { DataTable } from '../components/data-table.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Fact, Page } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { changeGatewaySettings, listWorkspaceComparisons, readDoctor, readGatewaySettings } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'
import { ChecksTable } from './checks-table.tsx'
import { OperatorCard } from './operator-card.tsx'

const REFRESH_MS = 5000
const HEALTH_REFRESH_MS = 30_000

/** Health of the service, the queue of the workspace, sandboxes and the gateway. */
export function OperationsPage() {
  const health = useRead(readDoctor, {}, { refetchMs: HEALTH_REFRESH_MS })
  const comparisons = useRead(listWorkspaceComparisons, { query: { limit: 100 } }, { refetchMs: REFRESH_MS })
  const openComparisons = (comparisons.data?.evaluations ?? []).filter(isOpen)
  return (
    <Page title="Operations">
      <div className="cards">
        <HealthFact checks={health.data?.checks} />
        <Fact label="trials running" value={sumTrials(openComparisons, 'running')} />
        <Fact label="trials queued" value={sumTrials(openComparisons, 'queued')} />
      </div>
      <Card title="Checks">
        <Loaded query={health}>{({ checks }) => <ChecksTable label="Checks" checks={checks} />}</Loaded>
      </Card>
      <Card title="Queue">
        <Loaded query={comparisons}>{() => <QueueTable comparisons={openComparisons} />}</Loaded>
      </Card>
      <SandboxesCard />
      <GatewayCard />
      <OperatorCard />
    </Page>
  )
}

const sumTrials = (comparisons: readonly Comparison[], state: 'running' | 'queued'): number =>
  comparisons.reduce((sum, { trials }) => sum + trials[state], 0)

function HealthFact({ checks }: { checks: readonly HealthCheck[] | undefined }) {
  if (!checks) return <Fact label="checks" value="…" />
  const failedChecks = checks.filter(({ ok }) => !ok)
  return (
    <Fact
      label="checks"
      value={failedChecks.length === 0 ? 'all pass' : `${failedChecks.length} of ${checks.length} failed`}
      note={failedChecks.map(({ name }) => name).join(', ')}
    />
  )
}

function QueueTable({ comparisons }: { comparisons: readonly Comparison[] }) {
  if (comparisons.length === 0)
    return (
      <Empty command="assay compare assay/quick">
        Comparisons that run or wait appear here, with what keeps them from running more trials.
      </Empty>
    )
  return (
    <DataTable label="Queue" heads={['Comparison', 'Sandbox', '#Running', '#Queued', 'Limited by']}>
      {comparisons.map((comparison) => (
        <tr key={comparison.id}>
          <td>
            <Link {...toComparisonLink(comparison.scope, comparison.id)}>
              <bdi>{nameScope(comparison.scope)}</bdi>
            </Link>{' '}
            <span className="small faint">{comparison.id.slice(0, 8)}</span>
          </td>
          <td>{comparison.sandbox}</td>
          <td className="number">{comparison.trials.running}</td>
          <td className="number">{comparison.trials.queued}</td>
          <td>
            <bdi>{replaceUnsafeCharacters(describeLimit(comparison))}</bdi>
          </td>
        </tr>
      ))}
    </DataTable>
  )
}

function SandboxesCard() {
  const { scope, isLoading } = useAnyScope()
  if (isLoading) return null
  return (
    <Card title="Sandboxes">
      {scope ? (
        <SandboxesTable scope={scope} />
      ) : (
        <Empty command="assay benchmarks add assay/quick">
          The sandboxes that workers offer appear here when the workspace has a benchmark or a repository.
        </Empty>
      )}
    </Card>
  )
}

function SandboxesTable({ scope }: { scope: Scope }) {
  const { endpoints, params } = toTarget(scope)
  const catalog = useRead(endpoints.catalog, { params }, { refetchMs: HEALTH_REFRESH_MS })
  return (
    <Loaded query={catalog}>
      {({ sandboxes }) => (
        <DataTable label="Sandboxes" heads={['Sandbox', 'State', 'Isolation', 'Detail']}>
          {sandboxes.map(({ id, name, available, isolation, detail }) => (
            <tr key={id}>
              <td>{name}</td>
              <td className={available ? 'pass-mark' : 'muted'}>
                {available ? '✓ available' : '– no worker offers it'}
              </td>
              <td>{isolation ?? '–'}</td>
              <td className="muted">
                <bdi>{replaceUnsafeCharacters(detail)}</bdi>
              </td>
            </tr>
          ))}
        </DataTable>
      )}
    </Loaded>
  )
}

function GatewayCard() {
  const settings = useRead(readGatewaySettings)
  const change = useChange(changeGatewaySettings, { invalidates: [readGatewaySettings] })
  const mayChange = useHasPermission('admin')
  return (
    <Card title="Gateway">
      <Loaded query={settings}>
        {({ recordBodies }) => (
          <>
            <p>
              Requests and responses of model calls are {recordBodies ? '' : 'not '}recorded. Recorded bodies are kept
              as long as artifacts, for admin keys to read.
            </p>
            {mayChange && (
              <button
                type="button"
                className="button"
                disabled={change.isPending}
                onClick={() => change.mutate({ body: { recordBodies: !recordBodies } })}
              >
                {recordBodies ? 'Stop recording' : 'Record bodies'}
              </button>
            )}
          </>
        )}
      </Loaded>
      {change.isError && <ProblemNote error={change.error} />}
    </Card>
  )
}
