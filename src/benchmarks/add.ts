import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { withDraft } from '../contents/drafts.ts'
import { type DownloadedDataset, type DownloadOutcome, downloadDataset } from '../harbor/registries/download.ts'
import { type DatasetReference, formatRef, parseReference } from '../harbor/registries/reference.ts'
import {
  type AccessOptions,
  describeRegistry,
  formatTaskName,
  type Registry,
  RegistryUnavailable,
  type Resolution,
  type ResolvedDataset,
  TASKS_MAX,
} from '../harbor/registries/registry.ts'
import { checkTask } from '../harbor/safety/check-task.ts'
import { RULES_VERSION } from '../harbor/safety/rules.ts'
import type { FileSource } from '../harbor/source.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { newId } from '../platform/ids.ts'
import { invalidRequest, Problem } from '../platform/problem.ts'
import { tell } from '../webhooks/tell.ts'
import { type By, record } from '../workspaces/audit.ts'
import { benchmarkOf } from './benchmarks.ts'
import type { AddProgress, Benchmark, Finding } from './schema.ts'
import * as schema from './schema.ts'
import * as rows from './sql.ts'

export type AddTools = {
  db: Db
  blobs: Blobs
  registry: Registry
  /** Where downloads lie until all of them have passed. */
  draftsFolder: string
  /** The personal key of a workspace at the registry, if it has one. */
  registryKey: (workspaceId: string) => Promise<string | undefined>
}

type Watch = { signal: AbortSignal; onProgress: (progress: AddProgress) => void }
type Added = { kind: 'added' | 'unchanged'; benchmark: Benchmark }

/** A benchmark is all checked or not there: whatever is wrong with a task, nothing of the dataset is kept. */
export async function addBenchmark(tools: AddTools, by: By, text: string, watch: Watch): Promise<Added> {
  const reference = referenceIn(text)
  const key = await tools.registryKey(by.workspaceId)
  const access = { signal: watch.signal, ...(key === undefined ? {} : { key }) }
  const dataset = await resolve(tools.registry, reference, access)
  const place = { workspaceId: by.workspaceId, datasetOrg: reference.org, dataset: reference.name }
  const before = await rows.findBenchmarkRow(tools.db, place)
  if (before && before.digest === dataset.digest && before.ruleset === RULES_VERSION)
    return { kind: 'unchanged', benchmark: benchmarkOf(before) }

  return withDraft(tools, draftName(dataset), async (draft) => {
    const findings: Finding[] = []
    const downloading = { registry: tools.registry, store: draft.store, scratch: join(tools.draftsFolder, 'scratch') }
    const downloaded = await downloadDataset(downloading, dataset, {
      ...access,
      onProgress: watch.onProgress,
      inspect: async (task, source) => void findings.push(...(await inspect(formatTaskName(task), source))),
    }).catch(asProblem)
    const complete = required(downloaded, findings)
    await draft.keep(complete.tasks.map((task) => task.stored))
    return keep(tools.db, by, { text, dataset: complete, warnings: findings })
  })
}

function referenceIn(text: string): DatasetReference {
  const reference = parseReference(text)
  if (!('refused' in reference)) return reference
  const errors = [{ pointer: '/reference', code: 'invalid_format', message: reference.refused }]
  throw new Problem(invalidRequest, reference.refused, { errors })
}

async function resolve(
  registry: Registry,
  reference: DatasetReference,
  access: AccessOptions,
): Promise<ResolvedDataset> {
  const resolution = await registry.resolve(reference, access).catch(asProblem)
  if (resolution.kind === 'found') return resolution.dataset
  throw refusal(resolution, reference)
}

function refusal(resolution: Exclude<Resolution, { kind: 'found' }>, { org, name, ref }: DatasetReference): Problem {
  switch (resolution.kind) {
    case 'unknown':
      return new Problem(schema.datasetNotFound, `No registry has ${org}/${name}@${formatRef(ref)}.`)
    case 'other_versions':
      return new Problem(schema.datasetNotFound, otherVersions(resolution, `${org}/${name}`, formatRef(ref)))
    case 'not_a_dataset':
      return new Problem(schema.datasetNotFound, 'That is a single task, not a dataset.')
    case 'empty':
      return new Problem(schema.noTasks, 'The dataset has no tasks.')
    case 'too_many':
      return new Problem(schema.tooManyTasks, `It has ${resolution.count} tasks; the most is ${TASKS_MAX}.`)
    case 'unauthorized':
      return new Problem(schema.registryAccessRefused, resolution.detail)
    case 'yanked':
      return refused([datasetFinding('yanked', `Its author has withdrawn it. ${resolution.reason}`.trim())])
    case 'invalid':
      return refused([datasetFinding('registry_inconsistent', resolution.detail)])
  }
}

const VERSIONS_SHOWN = 10

const otherVersions = ({ registry, versions }: OtherVersions, name: string, wanted: string): string =>
  `The ${describeRegistry(registry)} has ${name}, but no version ${wanted}. It has ${versions.slice(-VERSIONS_SHOWN).join(', ')}.`

type OtherVersions = Extract<Resolution, { kind: 'other_versions' }>

const datasetFinding = (rule: string, detail: string): Finding => ({
  ...{ task: null, rule, severity: 'block', path: '', detail },
})

const refused = (findings: Finding[]): Problem => {
  const blocking = findings.filter(({ severity }) => severity === 'block')
  const tasks = new Set(blocking.flatMap(({ task }) => task ?? []))
  const detail = tasks.size === 0 ? (blocking[0]?.detail ?? '') : `${tasks.size} of its tasks did not pass.`
  return new Problem(schema.benchmarkRefused, detail, { members: { findings } })
}

function asProblem(error: unknown): never {
  if (!(error instanceof RegistryUnavailable)) throw error
  const seconds = Math.ceil((error.retryAfterMs ?? 0) / 1000)
  const headers = seconds > 0 ? { 'retry-after': String(seconds) } : {}
  throw new Problem(schema.registryUnavailable, error.message, { headers })
}

async function inspect(task: string, source: FileSource): Promise<Finding[]> {
  const { findings } = await checkTask(source, { isPackage: true })
  return findings.map(({ rule, severity, path, detail }) => ({ task, rule, severity, path, detail }))
}

/** Everything there and nothing against it, or a problem that says what is wrong. */
function required(downloaded: DownloadOutcome, findings: Finding[]): DownloadedDataset {
  if (downloaded.kind === 'unauthorized') throw new Problem(schema.registryAccessRefused, downloaded.detail)
  findings.sort((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1))
  if (downloaded.kind === 'refused') {
    const faults = downloaded.faults.map(({ task, reason, detail }) => ({ ...datasetFinding(reason, detail), task }))
    throw refused([...faults, ...findings])
  }
  if (findings.some(({ severity }) => severity === 'block')) throw refused(findings)
  return downloaded.dataset
}

const sortKey = ({ severity, task, path, rule }: Finding): string => [severity, task, path, rule].join('\0')

type Passed = { text: string; dataset: DownloadedDataset; warnings: Finding[] }

/** The same content again is no change, also when somebody else was quicker. */
function keep(db: Db, by: By, { text, dataset, warnings }: Passed): Promise<Added> {
  const place = { workspaceId: by.workspaceId, datasetOrg: dataset.org, dataset: dataset.name }
  return transact(db, async (tx) => {
    await rows.lockBenchmark(tx, place)
    const before = await rows.findBenchmarkRow(tx, place)
    if (before && before.digest === dataset.digest && before.ruleset === RULES_VERSION)
      return { kind: 'unchanged', benchmark: benchmarkOf(before) }
    const row = await rows.replaceBenchmark(tx, rowOf(by.workspaceId, { text, dataset, warnings }), tasksOf(dataset))
    const subject = `${dataset.org}/${dataset.name}`
    await record(tx, { ...by, action: 'benchmark.added', subject, detail: { digest: dataset.digest } })
    const told = { benchmark: subject, digest: dataset.digest }
    await tell(tx, by.workspaceId, { type: 'benchmark.added', data: told })
    return { kind: 'added', benchmark: benchmarkOf(row) }
  })
}

const tasksOf = ({ tasks }: DownloadedDataset) =>
  tasks.map((task) => ({ name: formatTaskName(task), digest: task.digest }))

const rowOf = (workspaceId: string, { text, dataset, warnings }: Passed) => ({
  id: newId(),
  workspace_id: workspaceId,
  dataset_org: dataset.org,
  dataset: dataset.name,
  reference: text,
  ref: dataset.ref,
  resolved_ref: dataset.resolvedRef,
  digest: dataset.digest,
  description: dataset.description,
  tasks: dataset.tasks.length,
  resolved: JSON.stringify(dataset),
  ruleset: RULES_VERSION,
  warnings: JSON.stringify(warnings),
})

/** The same dataset finds its draft again; another never does. */
const draftName = ({ registry, org, name, digest, resolvedRef }: ResolvedDataset): string =>
  createHash('sha256')
    .update(JSON.stringify([registry, org, name, digest, resolvedRef]))
    .digest('hex')
