import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Comparison, ComparisonSetting, ComparisonTrial } from '../../src/comparisons/shapes/schema.ts'
import type { TrialTexts } from '../../web/export/trial-page.ts'
import { requireFileName } from '../paths.ts'
import type { Shell } from '../shell.ts'
import { parseAtifSteps } from './atif.ts'
import { forEachTrial } from './trial-files.ts'
import { formatScope } from './trial-rows.ts'

/** Length to which Harbor shortens the names of tasks in the names of trials. */
const NAME_LENGTH_MAX = 32

type HarborJobInput = {
  comparison: Comparison
  trials: readonly ComparisonTrial[]
  readTexts: (trial: ComparisonTrial) => Promise<TrialTexts>
}

/** Writes a comparison as a job folder of Harbor. `harbor view` opens the folder that contains it. */
export async function writeHarborJob(shell: Shell, folder: string, input: HarborJobInput): Promise<void> {
  const { comparison, trials, readTexts } = input
  const settings = new Map(comparison.settings.map((setting) => [setting.id, setting]))
  await mkdir(folder, { recursive: true })
  await writeJson(join(folder, 'config.json'), buildJobConfig(comparison, trials))
  await writeJson(join(folder, 'result.json'), buildJobResult(comparison, trials, settings))
  await forEachTrial(shell, trials, async (trial) => {
    const setting = settings.get(trial.settingId)
    if (!setting || !hasEnded(trial)) return
    await writeTrial(join(folder, toTrialName(trial)), { comparison, setting, trial }, await readTexts(trial))
  })
}

const hasEnded = ({ state }: ComparisonTrial): boolean => state !== 'queued' && state !== 'running'
const isScored = ({ state }: ComparisonTrial): boolean => state === 'passed' || state === 'failed'

type ExportedTrial = { comparison: Comparison; setting: ComparisonSetting; trial: ComparisonTrial }

async function writeTrial(folder: string, exported: ExportedTrial, texts: TrialTexts): Promise<void> {
  const config = buildTrialConfig(exported)
  const result = buildTrialResult(exported, config)
  await mkdir(join(folder, 'agent'), { recursive: true })
  await mkdir(join(folder, 'verifier'))
  await mkdir(join(folder, 'artifacts'))
  await writeJson(join(folder, 'config.json'), config)
  await writeJson(join(folder, 'lock.json'), buildTrialLock(exported))
  await writeJson(join(folder, 'result.json'), result)
  // The viewer fails on files that are no trajectory, which agents can write.
  const { trajectory = '' } = texts
  if (parseAtifSteps(trajectory).length > 0) await writeFile(join(folder, 'agent/trajectory.json'), trajectory)
  if (texts.verifier !== undefined) await writeFile(join(folder, 'verifier/test-stdout.txt'), texts.verifier)
  if (texts.patch !== undefined) await writeFile(join(folder, 'artifacts/changes.patch'), texts.patch)
  if (result.verifier_result) await writeJson(join(folder, 'verifier/reward.json'), result.verifier_result.rewards)
}

const writeJson = (path: string, value: unknown): Promise<void> =>
  writeFile(path, `${JSON.stringify(value, null, 2)}\n`)

/**
 * Returns the name of a trial's folder. Harbor's names are the start of the task's name and a random suffix; ours end with
 * the trial's id, so they are stable.
 */
function toTrialName({ id, task }: ComparisonTrial): string {
  const name = task.name.split('/').at(-1) ?? ''
  const safeName = name.replaceAll(/[^\w.-]+/g, '-').slice(0, NAME_LENGTH_MAX)
  return requireFileName(`${safeName}__${id}`)
}

function buildJobConfig(comparison: Comparison, trials: readonly ComparisonTrial[]) {
  const tasks = new Map(trials.map(({ task }) => [task.name, task]))
  return {
    job_name: `comparison-${comparison.id}`,
    n_attempts: comparison.attempts,
    agents: comparison.settings.map(buildAgentConfig),
    datasets: [],
    tasks: [...tasks.values()].map((task) => buildTaskConfig(comparison, task)),
  }
}

const buildAgentConfig = (setting: ComparisonSetting) => ({
  name: setting.harness,
  model_name: setting.provider === 'none' ? null : `${setting.provider}/${setting.model.name}`,
  kwargs: {
    version: setting.harnessVersion,
    reasoning_effort: setting.reasoningLevel,
    configuration: setting.configuration ? `${setting.configuration.name}@${setting.configuration.version}` : undefined,
  },
})

/** Builds the reference to a task. A name of two parts is a package with a digest; other names are paths. */
const buildTaskConfig = (comparison: Comparison, { name, digest }: ComparisonTrial['task']) => ({
  name: isPackageName(name) ? name : undefined,
  ref: isPackageName(name) ? digest : undefined,
  path: isPackageName(name) ? undefined : name,
  source: formatScope(comparison),
})

const isPackageName = (name: string): boolean => /^[^/]+\/[^/]+$/.test(name)

const buildTrialConfig = ({ comparison, setting, trial }: ExportedTrial) => ({
  task: buildTaskConfig(comparison, trial.task),
  trial_name: toTrialName(trial),
  timeout_multiplier: setting.timeoutMultiplier ?? 1,
  agent: buildAgentConfig(setting),
  job_id: comparison.id,
})

/** Version of Harbor's format of lock files. */
const LOCK_VERSION = 2

/**
 * Records the inputs of a trial with the digest of its task. The name of the environment begins with `assay:`, so
 * that Harbor does not take the trial for a run of its own.
 */
const buildTrialLock = ({ comparison, setting, trial }: ExportedTrial) => ({
  schema_version: LOCK_VERSION,
  task: {
    name: trial.task.name,
    type: isPackageName(trial.task.name) ? 'package' : 'local',
    digest: trial.task.digest,
    source: formatScope(comparison),
  },
  timeout_multiplier: setting.timeoutMultiplier ?? 1,
  agent: buildAgentConfig(setting),
  environment: { import_path: `assay:${trial.isolation ?? 'unknown'}` },
  verifier: {},
})

function buildTrialResult({ comparison, setting, trial }: ExportedTrial, config: unknown) {
  const { name, digest } = trial.task
  const [org = '', ...rest] = name.split('/')
  const { usage } = trial
  const times = buildTimes(comparison, trial)
  return {
    id: trial.id,
    task_name: name,
    trial_name: toTrialName(trial),
    trial_uri: `assay:trials/${trial.id}`,
    task_id: isPackageName(name) ? { org, name: rest.join('/'), ref: digest } : { path: name },
    source: formatScope(comparison),
    task_checksum: digest.replace(/^sha256:/, ''),
    config,
    agent_info: buildAgentInfo(setting),
    agent_result: {
      n_input_tokens: usage ? usage.input + usage.cacheRead + usage.cacheWrite : null,
      n_cache_tokens: usage?.cacheRead ?? null,
      n_output_tokens: usage?.output ?? null,
      cost_usd: trial.costUsd,
      metadata: { class: trial.class, cost_source: trial.costSource, attempt: trial.attempt },
    },
    verifier_result: isScored(trial) ? { rewards: toRewards(trial) } : null,
    exception_info: buildExceptionInfo(comparison, trial),
    ...times,
  }
}

/**
 * Builds the times of a trial. Harbor expects points in time, but a comparison records only durations. Every trial is
 * therefore exported as if it had started with the comparison.
 */
function buildTimes({ submittedAt, createdAt }: Comparison, { timings }: ComparisonTrial) {
  const startMs = Date.parse(submittedAt ?? createdAt)
  const [prepare, agent, verify] = [timings.prepare ?? 0, timings.agent ?? 0, timings.verify ?? 0]
  const total = timings.total ?? prepare + agent + verify
  const toSpan = (from: number, to: number) => ({ started_at: toTime(startMs, from), finished_at: toTime(startMs, to) })
  const wholeTrial = toSpan(0, total)
  return {
    ...wholeTrial,
    environment_setup: toSpan(0, prepare),
    agent_execution: toSpan(prepare, prepare + agent),
    verifier: toSpan(prepare + agent, prepare + agent + verify),
  }
}

const toTime = (startMs: number, seconds: number): string => new Date(startMs + seconds * 1000).toISOString()

const buildAgentInfo = ({ harness, harnessVersion, provider, model }: ComparisonSetting) => ({
  name: harness,
  version: harnessVersion,
  model_info: provider === 'none' ? null : { name: model.name, provider },
})

const toRewards = ({ rewards, reward }: ComparisonTrial): Record<string, number> =>
  Object.keys(rewards).length > 0 ? rewards : { reward: reward ?? 0 }

/** Exceptions of Harbor that correspond to classes of trials. */
const EXCEPTION_TYPES: Partial<Record<NonNullable<ComparisonTrial['class']>, string>> = {
  agent_timeout: 'AgentTimeoutError',
  agent_exit: 'NonZeroAgentExitCodeError',
  refusal: 'AgentSafetyRefusalError',
  provider_error: 'ApiError',
  sandbox_error: 'EnvironmentStartTimeoutError',
  verifier_error: 'VerifierOutputParseError',
}

function findExceptionType({ state, class: trialClass }: ComparisonTrial): string | undefined {
  if (state === 'canceled') return 'CancelledError'
  return trialClass ? EXCEPTION_TYPES[trialClass] : undefined
}

function buildExceptionInfo({ createdAt, finishedAt }: Comparison, trial: ComparisonTrial) {
  const type = findExceptionType(trial)
  if (type === undefined && trial.state !== 'errored') return null
  return {
    exception_type: type ?? 'RuntimeError',
    exception_message: trial.error ?? trial.explanation ?? '',
    exception_traceback: '',
    occurred_at: finishedAt ?? createdAt,
  }
}

type SettingsById = ReadonlyMap<string, ComparisonSetting>

function buildJobResult(comparison: Comparison, trials: readonly ComparisonTrial[], settings: SettingsById) {
  const { errored, canceled, running, queued, total } = comparison.trials
  const groups = Map.groupBy(trials.filter(hasEnded), ({ settingId }) => toEvalKey(comparison, settings.get(settingId)))
  return {
    id: comparison.id,
    started_at: comparison.submittedAt ?? comparison.createdAt,
    finished_at: comparison.finishedAt,
    n_total_trials: total,
    stats: {
      n_completed_trials: total - running - queued,
      n_errored_trials: errored + canceled,
      n_running_trials: running,
      n_pending_trials: queued,
      n_cancelled_trials: canceled,
      n_retries: trials.reduce((sum, { retries }) => sum + retries, 0),
      evals: Object.fromEntries([...groups].map(([key, group]) => [key, buildEvalStats(comparison, group)])),
      cost_usd: comparison.costUsd,
    },
  }
}

/** Returns the key under which Harbor groups trials: agent, model and dataset. */
function toEvalKey(comparison: Comparison, setting: ComparisonSetting | undefined): string {
  const { name, model_info: model } = setting ? buildAgentInfo(setting) : { name: 'unknown', model_info: null }
  return [name, model?.name, formatScope(comparison)].filter((part) => part !== undefined).join('__')
}

function buildEvalStats(comparison: Comparison, trials: readonly ComparisonTrial[]) {
  const scored = trials.filter(isScored)
  const rewardStats: Record<string, Record<string, string[]>> = {}
  const exceptionStats: Record<string, string[]> = {}
  for (const trial of scored) {
    for (const [key, value] of Object.entries(toRewards(trial))) {
      rewardStats[key] ??= {}
      rewardStats[key][String(value)] ??= []
      rewardStats[key][String(value)]?.push(toTrialName(trial))
    }
  }
  for (const trial of trials) {
    const type = buildExceptionInfo(comparison, trial)?.exception_type
    if (type === undefined) continue
    exceptionStats[type] ??= []
    exceptionStats[type].push(toTrialName(trial))
  }
  const mean = scored.reduce((sum, { reward }) => sum + (reward ?? 0), 0) / Math.max(1, scored.length)
  return {
    n_trials: scored.length,
    n_errors: Object.values(exceptionStats).flat().length,
    metrics: scored.length > 0 ? [{ mean }] : [],
    reward_stats: rewardStats,
    exception_stats: exceptionStats,
  }
}
