import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { withDraft } from '../contents/contents.ts'
import { type DownloadedDataset, type DownloadOutcome, downloadDataset } from '../harbor/registries/download.ts'
import {
  type AccessOptions,
  type DatasetReference,
  describeRegistry,
  formatRef,
  formatTaskName,
  parseReference,
  type Registry,
  RegistryUnavailable,
  type Resolution,
  type ResolvedDataset,
  TASKS_MAX,
} from '../harbor/registries/registry.ts'
import { RULES_VERSION, readContents } from '../harbor/safety/check-task.ts'
import type { CheckTasks } from '../harbor/safety/check-thread.ts'
import type { FileSource } from '../harbor/source.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { newId } from '../platform/ids.ts'
import { invalidRequest, Problem } from '../platform/problem.ts'
import { openThreads } from '../platform/threads.ts'
import { emitEvent } from '../webhooks/emit.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import { type BenchmarkDeps, toBenchmark } from './benchmarks.ts'
import type { AddProgress, Benchmark, BenchmarkFinding } from './schema.ts'
import * as schema from './schema.ts'
import * as rows from './sql.ts'

type AddBenchmarkOptions = { signal: AbortSignal; onProgress: (progress: AddProgress) => void }
type AddBenchmarkResult = { kind: 'added' | 'unchanged'; benchmark: Benchmark }

/** Adds a dataset. Stores nothing unless every task passes the safety check. */
export async function addBenchmark(
  deps: BenchmarkDeps,
  by: AuditActor,
  referenceText: string,
  options: AddBenchmarkOptions,
): Promise<AddBenchmarkResult> {
  const reference = requireReference(referenceText)
  const access = { signal: options.signal, key: await deps.registryKey(by.workspaceId) }
  const dataset = await resolveDataset(deps.registry, reference, access)
  const ref = { workspaceId: by.workspaceId, datasetOrg: reference.org, dataset: reference.name }
  const existing = await rows.findBenchmarkRow(deps.db, ref)
  if (existing && isUnchanged(existing, dataset)) return { kind: 'unchanged', benchmark: toBenchmark(existing) }

  return withDraft(deps, toDraftName(dataset), async (draft) => {
    const findings: BenchmarkFinding[] = []
    const downloadDeps = { registry: deps.registry, store: draft.store, scratch: join(deps.draftsFolder, 'scratch') }
    const downloaded = await downloadDataset(downloadDeps, dataset, {
      ...access,
      onProgress: options.onProgress,
      inspect: async (task, source) => {
        findings.push(...(await checkDownloaded(deps, formatTaskName(task), source)))
      },
    }).catch(throwAsProblem)
    const complete = requireComplete(downloaded, findings)
    await draft.commit(complete.tasks.map((task) => task.stored))
    return storeBenchmark(deps.db, by, { referenceText, dataset: complete, warnings: findings })
  })
}

/** True if the same content was already checked by the current rules. */
const isUnchanged = ({ digest, ruleset }: rows.BenchmarkRow, dataset: { digest: string | null }): boolean =>
  digest === dataset.digest && ruleset === RULES_VERSION

function requireReference(text: string): DatasetReference {
  const reference = parseReference(text)
  if (!('refused' in reference)) return reference
  const errors = [{ pointer: '/reference', code: 'invalid_format', message: reference.refused }]
  throw new Problem(invalidRequest, reference.refused, { errors })
}

async function resolveDataset(
  registry: Registry,
  reference: DatasetReference,
  access: AccessOptions,
): Promise<ResolvedDataset> {
  const resolution = await registry.resolve(reference, access).catch(throwAsProblem)
  if (resolution.kind === 'found') return resolution.dataset
  throw toRefusal(resolution, reference)
}

function toRefusal(resolution: Exclude<Resolution, { kind: 'found' }>, { org, name, ref }: DatasetReference): Problem {
  switch (resolution.kind) {
    case 'unknown':
      return new Problem(schema.datasetNotFound, `No registry has ${org}/${name}@${formatRef(ref)}.`)
    case 'other_versions':
      return new Problem(schema.datasetNotFound, describeVersions(resolution, `${org}/${name}`, formatRef(ref)))
    case 'not_a_dataset':
      return new Problem(schema.datasetNotFound, 'The reference names a single task, not a dataset.')
    case 'empty':
      return new Problem(schema.noTasks, 'The dataset has no tasks.')
    case 'too_many':
      return new Problem(schema.tooManyTasks, `The dataset has ${resolution.count} tasks; the maximum is ${TASKS_MAX}.`)
    case 'unauthorized':
      return new Problem(schema.registryAccessRefused, resolution.detail)
    case 'yanked':
      return toRefusedProblem([
        toDatasetFinding('yanked', `The publisher has withdrawn the dataset. ${resolution.reason}`.trim()),
      ])
    case 'invalid':
      return toRefusedProblem([toDatasetFinding('registry_inconsistent', resolution.detail)])
  }
}

const VERSIONS_SHOWN = 10

const describeVersions = ({ registry, versions }: OtherVersions, name: string, wanted: string): string =>
  `The ${describeRegistry(registry)} has ${name}, but no version ${wanted}. It has ${versions.slice(-VERSIONS_SHOWN).join(', ')}.`

type OtherVersions = Extract<Resolution, { kind: 'other_versions' }>

const toDatasetFinding = (rule: string, detail: string): BenchmarkFinding => ({
  task: null,
  rule,
  severity: 'block',
  path: '',
  detail,
})

const toRefusedProblem = (findings: BenchmarkFinding[]): Problem => {
  const blocking = findings.filter(({ severity }) => severity === 'block')
  const tasks = new Set(blocking.flatMap(({ task }) => task ?? []))
  const count = tasks.size === 1 ? '1 task' : `${tasks.size} tasks`
  const detail = tasks.size === 0 ? (blocking[0]?.detail ?? '') : `${count} did not pass the safety check.`
  return new Problem(schema.benchmarkRefused, detail, { members: { findings } })
}

function throwAsProblem(error: unknown): never {
  if (!(error instanceof RegistryUnavailable)) throw error
  const seconds = Math.ceil((error.retryAfterMs ?? 0) / 1000)
  const headers = seconds > 0 ? { 'retry-after': String(seconds) } : {}
  throw new Problem(schema.registryUnavailable, error.message, { headers })
}

const checkThreads = openThreads<CheckTasks>(new URL('../harbor/safety/check-thread.ts', import.meta.url), {
  timeoutMs: 300_000,
  memoryMb: 1024,
})

/** Checks a downloaded task. The rules are applied in a thread, because large scripts take seconds. */
async function checkDownloaded(
  { buildHosts }: Pick<BenchmarkDeps, 'buildHosts'>,
  task: string,
  source: FileSource,
): Promise<BenchmarkFinding[]> {
  const contents = await readContents(source, { includeIgnored: true })
  const { findings } = await checkThreads.run('applyToContents', { contents, buildHosts })
  return findings.map(({ rule, severity, path, detail }) => ({ task, rule, severity, path, detail }))
}

/** Sorts the findings. Returns the dataset if it is complete and no finding blocks it; throws a problem otherwise. */
function requireComplete(downloaded: DownloadOutcome, findings: BenchmarkFinding[]): DownloadedDataset {
  if (downloaded.kind === 'unauthorized') throw new Problem(schema.registryAccessRefused, downloaded.detail)
  findings.sort((a, b) => (toSortKey(a) < toSortKey(b) ? -1 : 1))
  if (downloaded.kind === 'refused') {
    const faults = downloaded.faults.map(({ task, reason, detail }) => ({ ...toDatasetFinding(reason, detail), task }))
    throw toRefusedProblem([...faults, ...findings])
  }
  if (findings.some(({ severity }) => severity === 'block')) throw toRefusedProblem(findings)
  return downloaded.dataset
}

const toSortKey = ({ severity, task, path, rule }: BenchmarkFinding): string => [severity, task, path, rule].join('\0')

type CheckedDataset = { referenceText: string; dataset: DownloadedDataset; warnings: BenchmarkFinding[] }

/** Stores the benchmark. Unchanged content is a no-op, also if a concurrent request stored it. */
function storeBenchmark(db: Db, by: AuditActor, checked: CheckedDataset): Promise<AddBenchmarkResult> {
  const { dataset } = checked
  const ref = { workspaceId: by.workspaceId, datasetOrg: dataset.org, dataset: dataset.name }
  return transact(db, async (tx) => {
    await rows.lockBenchmark(tx, ref)
    const existing = await rows.findBenchmarkRow(tx, ref)
    if (existing && isUnchanged(existing, dataset)) return { kind: 'unchanged', benchmark: toBenchmark(existing) }
    const row = await rows.replaceBenchmark(tx, toRow(by.workspaceId, checked), toTaskRows(dataset))
    const subject = `${dataset.org}/${dataset.name}`
    await record(tx, { ...by, action: 'benchmark.added', subject, detail: { digest: dataset.digest } })
    const data = { benchmark: subject, digest: dataset.digest }
    await emitEvent(tx, by.workspaceId, { type: 'benchmark.added', data })
    return { kind: 'added', benchmark: toBenchmark(row) }
  })
}

const toTaskRows = ({ tasks }: DownloadedDataset) =>
  tasks.map((task) => ({ name: formatTaskName(task), digest: task.digest }))

const toRow = (workspaceId: string, { referenceText, dataset, warnings }: CheckedDataset) => ({
  id: newId(),
  workspace_id: workspaceId,
  dataset_org: dataset.org,
  dataset: dataset.name,
  reference: referenceText,
  ref: dataset.ref,
  resolved_ref: dataset.resolvedRef,
  digest: dataset.digest,
  description: dataset.description,
  tasks: dataset.tasks.length,
  resolved: JSON.stringify(dataset),
  ruleset: RULES_VERSION,
  warnings: JSON.stringify(warnings),
})

/** Names the draft after the dataset, so that a retry finds its earlier downloads. */
const toDraftName = ({ registry, org, name, digest, resolvedRef }: ResolvedDataset): string =>
  createHash('sha256')
    .update(JSON.stringify([registry, org, name, digest, resolvedRef]))
    .digest('hex')
