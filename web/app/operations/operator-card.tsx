import { useMutation } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { type ClientOptions, call } from '../../../src/platform/http/client.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import type { DiskSpace, HealthCheck, WorkerProcess } from '../../../src/workspaces/schema.ts'
import { formatCount, usd } from '../../components/format.ts'
import { ANONYMOUS } from '../api/api.ts'
import { formatRoughDuration } from '../comparisons/text.ts'
import { CopyText } from '../components/copy-text.tsx'
import { DataTable } from '../components/data-table.tsx'
import { Card, Empty } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { formatTime } from '../components/times.ts'
import { readOperations } from '../endpoints.gen.ts'
import { formatBytes } from '../trials/trial-files.ts'
import { ChecksTable } from './checks-table.tsx'
import { type MetricSample, parseMetrics, sumMetric } from './metrics-text.ts'

type OperatorFigures = {
  checks: readonly HealthCheck[]
  samples: readonly MetricSample[]
  workers: readonly WorkerProcess[]
  disk: DiskSpace
}

/** Shows figures of the service to a person with the operator key. The key is kept only while the page is open. */
export function OperatorCard() {
  const [key, setKey] = useState('')
  const read = useMutation({ mutationFn: () => readFigures(key) })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    read.mutate()
  }
  return (
    <Card title="For the operator">
      <p className="muted">Workers, disk, jobs, memory and the gateway need the operator key. It is not stored.</p>
      <form className="fields" autoComplete="off" onSubmit={submit}>
        <label htmlFor="operator-key">Operator key</label>
        <input id="operator-key" type="password" required value={key} onChange={({ target }) => setKey(target.value)} />
        <button type="submit" className="button" disabled={read.isPending}>
          Show figures
        </button>
      </form>
      {read.isError && <ProblemNote error={read.error} />}
      {read.isSuccess && !read.data && (
        <p role="alert" className="fail-mark">
          The service refused this key. Enter the value of ASSAY_OPERATOR_KEY.
        </p>
      )}
      {read.data && <Figures figures={read.data} />}
      <CopyText label="Checks tools and configuration of a machine, on that machine" text="assay doctor" />
    </Card>
  )
}

/** Sends no session cookie: requests with the operator key must not act as the workspace. */
const WITHOUT_SESSION: RequestInit = { credentials: 'omit' }

/** Reads the figures. Returns undefined if the key is refused; an error would end the session of the workspace. */
async function readFigures(key: string): Promise<OperatorFigures | undefined> {
  const init: RequestInit = { headers: { authorization: `Bearer ${key}` }, ...WITHOUT_SESSION }
  const [metricsResponse, readyResponse] = await Promise.all([fetch('/metrics', init), fetch('/readyz', init)])
  if (!metricsResponse.ok) return undefined
  const { checks = [] }: { checks?: HealthCheck[] } = await readyResponse.json()
  const options: ClientOptions = {
    ...ANONYMOUS,
    key,
    fetch: (target, request) => fetch(target, { ...request, ...WITHOUT_SESSION }),
  }
  const { body } = await call(options, readOperations)
  return { checks, samples: parseMetrics(await metricsResponse.text()), workers: body.workers, disk: body.disk }
}

const MIB = 1024 * 1024
const MICROS_PER_USD = 1_000_000

function Figures({ figures: { checks, samples, workers, disk } }: { figures: OperatorFigures }) {
  const sumOf = (name: string, labels?: Record<string, string>) => sumMetric(samples, name, labels)
  const formatOrDash = (value: number | undefined) => (value === undefined ? '–' : formatCount(value))
  const startedAtSeconds = sumOf('assay_process_start_time_seconds')
  const rows: [string, string][] = [
    ['Running for', startedAtSeconds === undefined ? '–' : formatRoughDuration(Date.now() / 1000 - startedAtSeconds)],
    ['Memory', `${formatOrDash(Math.round((sumOf('assay_process_resident_memory_bytes') ?? 0) / MIB))} MiB`],
    ['Requests answered', formatOrDash(sumOf('assay_http_requests_total'))],
    ['Requests that failed here (5xx)', formatOrDash(sumOf('assay_http_requests_total', { status: '5xx' }) ?? 0)],
    ['Jobs running', formatOrDash(sumOf('assay_jobs_running'))],
    ['Jobs done', formatOrDash(sumOf('assay_jobs_done'))],
    ['Jobs given up', formatOrDash(sumOf('assay_jobs_failed'))],
    ['Connections of sandboxes to the gateway', formatOrDash(sumOf('assay_gateway_tunnels'))],
    ['Calls to models', formatOrDash(sumOf('assay_gateway_calls_total'))],
    ['Calls refused', formatOrDash(sumOf('assay_gateway_refused_total'))],
    ['Calls retried', formatOrDash(sumOf('assay_gateway_retries_total'))],
    ['Cost of calls', usd((sumOf('assay_gateway_cost_micros_total') ?? 0) / MICROS_PER_USD)],
  ]
  return (
    <div className="figures">
      <h3>Service</h3>
      <ChecksTable label="Checks of the service" checks={checks} />
      <p className="small muted">
        Disk of the data folder: {formatBytes(disk.freeBytes)} of {formatBytes(disk.totalBytes)} are free.
      </p>
      <h3>Workers</h3>
      <WorkersTable workers={workers} />
      <h3>Process</h3>
      <DataTable label="Figures of the process" heads={['Since the process started', '#Value']}>
        {rows.map(([label, value]) => (
          <tr key={label}>
            <td>{label}</td>
            <td className="number">{value}</td>
          </tr>
        ))}
      </DataTable>
    </div>
  )
}

/** Lists the processes that run jobs. Host names are untrusted input: the worker reports its own. */
function WorkersTable({ workers }: { workers: readonly WorkerProcess[] }) {
  if (workers.length === 0)
    return <Empty command="assay work">Processes that run jobs appear here while they are alive.</Empty>
  return (
    <DataTable label="Workers" heads={['Worker', '#Process', '#Jobs running', 'Started', 'Last seen']}>
      {workers.map(({ host, processId, jobs, startedAt, seenAt }) => (
        <tr key={`${host} ${processId}`}>
          <td>
            <bdi>{replaceUnsafeCharacters(host)}</bdi>
          </td>
          <td className="number">{processId}</td>
          <td className="number">{jobs}</td>
          <td>{formatTime(startedAt)}</td>
          <td>{formatTime(seenAt)}</td>
        </tr>
      ))}
    </DataTable>
  )
}
