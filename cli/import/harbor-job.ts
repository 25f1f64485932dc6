import { lstat, readdir, readFile } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { z } from 'zod'
import type { TrialTableRow } from '../export/trial-rows.ts'
import { WrongUse } from '../failure.ts'

const TRIALS_MAX = 100_000
const RESULT_BYTES_MAX = 16 * 1024 * 1024

const Timing = z.looseObject({ started_at: z.string().nullish(), finished_at: z.string().nullish() }).nullish()

const AgentResult = z
  .looseObject({
    n_input_tokens: z.number().nullish(),
    n_cache_tokens: z.number().nullish(),
    n_output_tokens: z.number().nullish(),
    cost_usd: z.number().nullish(),
  })
  .nullish()

const ExceptionInfo = z.looseObject({ exception_type: z.string(), exception_message: z.string().catch('') }).nullish()

const AgentInfo = z.looseObject({
  name: z.string(),
  version: z.string().catch('unknown'),
  model_info: z.looseObject({ name: z.string(), provider: z.string().nullish() }).nullish(),
})

/** The result of a trial, as Harbor 0.20 to 0.25 writes it. Other fields are ignored. */
const HarborTrialResult = z.looseObject({
  id: z.string(),
  task_name: z.string(),
  trial_name: z.string(),
  source: z.string().nullish(),
  task_checksum: z.string().nullish(),
  config: z.looseObject({
    timeout_multiplier: z.number().nullish(),
    agent: z.looseObject({ kwargs: z.looseObject({ reasoning_effort: z.unknown().optional() }).nullish() }).nullish(),
  }),
  agent_info: AgentInfo,
  agent_result: AgentResult,
  verifier_result: z.looseObject({ rewards: z.record(z.string(), z.number()).nullish() }).nullish(),
  verifier_environment_mode: z.string().nullish(),
  exception_info: ExceptionInfo,
  started_at: z.string().nullish(),
  finished_at: z.string().nullish(),
  environment_setup: Timing,
  agent_execution: Timing,
  verifier: Timing,
  step_results: z.array(z.looseObject({ agent_result: AgentResult, exception_info: ExceptionInfo })).nullish(),
})
type HarborTrialResult = z.infer<typeof HarborTrialResult>

/** The inputs of a trial, which newer versions of Harbor write. The digest is computed like the digest of a task here. */
const HarborTrialLock = z.looseObject({ task: z.looseObject({ digest: z.string() }) })

type RecordedTrial = { result: HarborTrialResult; taskDigest: string | null }

const HarborJobResult = z.looseObject({ id: z.string() })

/** A job of Harbor as a table of trials. `unfinished` has the names of trials without a result. */
type HarborJob = { id: string; trials: TrialTableRow[]; unfinished: string[] }

/** Reads a job folder of Harbor. Trials without a result are listed as unfinished. Symbolic links are not followed. */
export async function readHarborJob(folder: string): Promise<HarborJob> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
  const job = await readJson(join(folder, 'result.json'), HarborJobResult)
  if (!job) throw new WrongUse(`${folder} is no job folder of Harbor: it has no result.json.`)
  if (folders.length > TRIALS_MAX) throw new WrongUse(`${folder} has more than ${TRIALS_MAX} trials.`)
  const recorded: RecordedTrial[] = []
  const unfinished: string[] = []
  for (const name of folders.toSorted()) {
    const result = await readJson(join(folder, name, 'result.json'), HarborTrialResult)
    if (result) recorded.push({ result, taskDigest: await readTaskDigest(join(folder, name), result) })
    else if (await isFile(join(folder, name, 'config.json'))) unfinished.push(name)
  }
  return { id: job.id, trials: toRows(job.id, basename(resolve(folder)), recorded), unfinished }
}

async function readTaskDigest(folder: string, { task_checksum }: HarborTrialResult): Promise<string | null> {
  const lock = await readJson(join(folder, 'lock.json'), HarborTrialLock)
  const digest = lock?.task.digest ?? task_checksum
  return digest ? `sha256:${digest.replace(/^sha256:/, '')}` : null
}

const isFile = async (path: string): Promise<boolean> => (await lstat(path).catch(() => undefined))?.isFile() ?? false

/** Reads a file of JSON. Returns undefined if there is none, and fails with its path if it has another shape. */
async function readJson<T>(path: string, shape: z.ZodType<T>): Promise<T | undefined> {
  const stats = await lstat(path).catch(() => undefined)
  if (!stats?.isFile()) return undefined
  if (stats.size > RESULT_BYTES_MAX) throw new WrongUse(`${path} is larger than ${RESULT_BYTES_MAX} bytes.`)
  try {
    return shape.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch (error) {
    const field = error instanceof z.ZodError ? error.issues[0]?.path.join('.') : undefined
    throw new WrongUse(`${path} was not written by Harbor 0.20 to 0.25${field ? `: see its field ${field}` : ''}.`)
  }
}

/** Converts trials to rows. The attempts of each task and setting are numbered in the order in which they started. */
function toRows(jobId: string, jobName: string, recorded: readonly RecordedTrial[]): TrialTableRow[] {
  const attempts = new Map<string, number>()
  const startOf = ({ result }: RecordedTrial): string => `${result.started_at ?? ''} ${result.trial_name}`
  return recorded
    .toSorted((a, b) => (startOf(a) < startOf(b) ? -1 : 1))
    .map(({ result, taskDigest }) => {
      const key = `${result.task_name} ${toSettingId(result)}`
      const attempt = (attempts.get(key) ?? 0) + 1
      attempts.set(key, attempt)
      return toRow({ jobId, jobName, attempt, taskDigest }, result)
    })
}

type RowContext = { jobId: string; jobName: string; attempt: number; taskDigest: string | null }

function toRow({ jobId, jobName, attempt, taskDigest }: RowContext, result: HarborTrialResult): TrialTableRow {
  const agentColumns = toAgentColumns(result)
  const outcomeColumns = toOutcomeColumns(result)
  const measuredColumns = toMeasuredColumns(result)
  return {
    comparison_id: jobId,
    scope: result.source ?? jobName,
    trial_id: result.id,
    task: result.task_name,
    task_digest: taskDigest,
    ...agentColumns,
    configuration: null,
    timeout_multiplier: result.config.timeout_multiplier ?? 1,
    attempt,
    ...outcomeColumns,
    reused_from: null,
    voided: null,
    ...measuredColumns,
    retries_cost_usd: null,
    cost_source: 'reported',
    isolation: null,
    verify_mode: result.verifier_environment_mode ?? null,
    retries: null,
    failed_tests: null,
  }
}

/** Builds the id of the setting as in a comparison. The model of agents without a model is `reference`. */
function toSettingId(result: HarborTrialResult): string {
  const { model, harness, reasoning_level: level } = toSettingParts(result)
  return `${model}|${harness}|${level}`
}

function toSettingParts({ agent_info: { name, model_info: model }, config }: HarborTrialResult) {
  const level = config.agent?.kwargs?.reasoning_effort
  const defaultLevel = model ? 'default' : 'none'
  return {
    model: model ? [model.provider, model.name].filter(Boolean).join('/') : 'reference',
    harness: name,
    reasoning_level: typeof level === 'string' ? level : defaultLevel,
  }
}

function toAgentColumns(result: HarborTrialResult) {
  const parts = toSettingParts(result)
  return {
    setting_id: toSettingId(result),
    ...parts,
    provider: result.agent_info.model_info?.provider ?? null,
    harness_version: result.agent_info.version,
  }
}

/** Classes of trials that correspond to exceptions of Harbor. */
const CLASSES: Record<string, string> = {
  AgentTimeoutError: 'agent_timeout',
  NonZeroAgentExitCodeError: 'agent_exit',
  AgentSafetyRefusalError: 'refusal',
}

/** Derives state, class and rewards. A trial with a reward is scored even if the agent timed out, as in this service. */
function toOutcomeColumns({ verifier_result: verdict, exception_info, step_results: steps }: HarborTrialResult) {
  const exception = exception_info ?? steps?.find((step) => step.exception_info)?.exception_info ?? undefined
  const type = exception?.exception_type
  const error = exception ? `${type}: ${exception.exception_message}` : null
  const rewards = verdict?.rewards ?? {}
  const reward = selectReward(rewards)
  const unscored = { class: null, passed: null, reward: null, rewards, error: error ?? 'Harbor recorded no reward.' }
  if (type === 'CancelledError') return { state: 'canceled', ...unscored }
  if (reward === undefined) return { state: 'errored', ...unscored }
  const passed = reward >= 1
  return {
    state: passed ? 'passed' : 'failed',
    class: type === undefined ? 'verified' : (CLASSES[type] ?? null),
    passed,
    reward,
    rewards,
    error,
  }
}

function selectReward(rewards: Record<string, number>): number | undefined {
  const values = Object.values(rewards)
  return rewards.reward ?? (values.length === 1 ? values[0] : undefined)
}

/** Derives times, tokens and cost. Harbor includes cached tokens in the input tokens; this service does not. */
function toMeasuredColumns(result: HarborTrialResult) {
  const steps = result.step_results?.map((step) => step.agent_result) ?? []
  const agentResults: z.infer<typeof AgentResult>[] = result.agent_result ? [result.agent_result] : steps
  const reports = agentResults.filter((report) => report != null)
  const sumKnown = (numbers: (number | null | undefined)[]): number | null =>
    numbers.some((number) => number != null)
      ? numbers.reduce<number>((total, number) => total + (number ?? 0), 0)
      : null
  const input = sumKnown(reports.map(({ n_input_tokens: count }) => count))
  const cached = sumKnown(reports.map(({ n_cache_tokens: count }) => count))
  return {
    queue_seconds: null,
    prepare_seconds: toSeconds(result.environment_setup),
    agent_seconds: toSeconds(result.agent_execution),
    verify_seconds: toSeconds(result.verifier),
    total_seconds: toSeconds(result),
    input_tokens: input === null ? null : input - (cached ?? 0),
    cache_read_tokens: cached,
    cache_write_tokens: null,
    output_tokens: sumKnown(reports.map(({ n_output_tokens: count }) => count)),
    reasoning_tokens: null,
    cost_usd: sumKnown(reports.map(({ cost_usd: cost }) => cost)),
  }
}

function toSeconds(timing: z.infer<typeof Timing>): number | null {
  const seconds = (Date.parse(timing?.finished_at ?? '') - Date.parse(timing?.started_at ?? '')) / 1000
  return Number.isFinite(seconds) ? seconds : null
}
