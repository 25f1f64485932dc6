import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Comparison, ComparisonSetting, ComparisonTrial } from '../../src/comparisons/shapes/schema.ts'
import type { TrialTexts } from '../../web/export/trial-page.ts'
import { requireFileName } from '../paths.ts'
import { type AtifStep, parseAtifSteps, toText } from './atif.ts'
import { formatScope } from './trial-rows.ts'

/** Version of Inspect's log format. */
const LOG_VERSION = 2
/** Name under which the result of a trial appears among the scores of Inspect. */
const SCORER = 'reward'

type ReadTexts = (trial: ComparisonTrial) => Promise<TrialTexts>

/** Writes one Inspect log per setting, because an Inspect log has one model. Attempts become epochs. */
export async function writeInspectLogs(
  folder: string,
  comparison: Comparison,
  trials: readonly ComparisonTrial[],
  readTexts: ReadTexts,
): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const setting of comparison.settings) {
    const settingTrials = trials.filter(({ settingId }) => settingId === setting.id)
    const samples: unknown[] = []
    for (const trial of settingTrials) samples.push(toSample(setting, trial, await readTexts(trial)))
    const log = buildInspectLog(comparison, setting, settingTrials, samples)
    await writeFile(join(folder, toLogName(comparison, setting)), JSON.stringify(log, null, 1))
  }
}

/** Returns the name of a log. It begins with the time, by which Inspect sorts logs. */
function toLogName({ createdAt }: Comparison, setting: ComparisonSetting): string {
  const time = createdAt.replace(/\.\d+Z$/, '').replaceAll(':', '-')
  return requireFileName(`${time}_${setting.id.replaceAll(/[^\w.@-]+/g, '-')}.json`)
}

function buildInspectLog(
  comparison: Comparison,
  setting: ComparisonSetting,
  trials: readonly ComparisonTrial[],
  samples: readonly unknown[],
) {
  const scope = formatScope(comparison)
  return {
    version: LOG_VERSION,
    status: toStatus(comparison.state),
    eval: {
      eval_id: `${comparison.id}:${setting.id}`,
      run_id: comparison.id,
      created: comparison.createdAt,
      task: scope,
      task_id: comparison.id,
      task_version: comparison.frozen?.digest ?? 0,
      dataset: {
        name: scope,
        location: comparison.frozen?.digest ?? null,
        samples: new Set(trials.map(({ task }) => task.name)).size,
        sample_ids: [...new Set(trials.map(({ task }) => task.name))],
        shuffled: false,
      },
      solver: setting.harness,
      model: toModelName(setting),
      model_generate_config: {},
      config: { epochs: comparison.attempts, epochs_reducer: ['mean'] },
      packages: {},
      metadata: {
        setting: setting.id,
        harness_version: setting.harnessVersion,
        reasoning_level: setting.reasoningLevel,
        isolation: setting.isolation,
      },
    },
    plan: { name: setting.harness, steps: [{ solver: setting.harness, params: {} }], config: {} },
    results: buildResults(setting, trials),
    stats: {
      started_at: comparison.submittedAt ?? comparison.createdAt,
      completed_at: comparison.finishedAt ?? '',
      model_usage: {},
    },
    samples,
  }
}

function toStatus(state: Comparison['state']): string {
  if (state === 'completed') return 'success'
  return state === 'canceled' ? 'cancelled' : 'started'
}

const toModelName = ({ provider, model }: ComparisonSetting): string => `${provider}/${model.name}`

const isScored = ({ state }: ComparisonTrial): boolean => state === 'passed' || state === 'failed'

function buildResults({ accuracy }: ComparisonSetting, trials: readonly ComparisonTrial[]) {
  const scored = trials.filter(isScored)
  const metrics = accuracy === null ? {} : { accuracy: { name: 'accuracy', value: accuracy / 100, params: {} } }
  return {
    total_samples: trials.length,
    completed_samples: scored.length,
    scores: [
      {
        name: SCORER,
        scorer: SCORER,
        scored_samples: scored.length,
        unscored_samples: trials.length - scored.length,
        params: {},
        metrics,
      },
    ],
  }
}

function toSample(setting: ComparisonSetting, trial: ComparisonTrial, texts: TrialTexts) {
  const model = toModelName(setting)
  const steps = parseAtifSteps(texts.trajectory)
  const messages = steps.flatMap(toMessages)
  const instruction = steps.find(({ source }) => source === 'user')
  const lastAnswer = messages.findLast(({ role }) => role === 'assistant')
  return {
    id: trial.task.name,
    epoch: trial.attempt,
    input: instruction ? toText(instruction.message) : trial.task.name,
    target: '',
    messages,
    output: {
      model,
      choices: lastAnswer ? [{ message: lastAnswer, stop_reason: 'stop' }] : [],
    },
    scores: isScored(trial) ? { [SCORER]: toScore(trial, texts.patch) } : {},
    metadata: {
      trial: trial.id,
      task_digest: trial.task.digest,
      state: trial.state,
      class: trial.class,
      cost_usd: trial.costUsd,
      verify_mode: trial.verifyMode,
      verifier_output: texts.verifier ?? null,
    },
    model_usage: trial.usage ? { [model]: toModelUsage(trial.usage, trial.costUsd) } : {},
    total_time: trial.timings.total,
    working_time: trial.timings.agent,
    uuid: trial.id,
    error: trial.state === 'errored' ? toError(trial.error ?? trial.explanation ?? 'No reason was recorded.') : null,
  }
}

const toError = (message: string) => ({ message, traceback: '', traceback_ansi: '' })

/** Builds the score: 1 for a passed trial, otherwise 0. Partial rewards do not pass, so rewards are only metadata. */
const toScore = (trial: ComparisonTrial, patch: string | undefined) => ({
  value: trial.state === 'passed' ? 1 : 0,
  answer: patch ?? null,
  explanation: trial.explanation ?? null,
  metadata: { reward: trial.reward, rewards: trial.rewards, failed_tests: trial.failedTests ?? [] },
})

const toModelUsage = (usage: NonNullable<ComparisonTrial['usage']>, costUsd: number | null) => ({
  input_tokens: usage.input,
  output_tokens: usage.output,
  total_tokens: usage.input + usage.cacheRead + usage.cacheWrite + usage.output,
  input_tokens_cache_read: usage.cacheRead,
  input_tokens_cache_write: usage.cacheWrite,
  reasoning_tokens: usage.reasoning,
  total_cost: costUsd,
})

type InspectMessage = { role: 'system' | 'user' | 'assistant' | 'tool'; content: unknown; [field: string]: unknown }

/** Converts a step to messages. A step of the agent becomes its message and one message per tool result. */
function toMessages(step: AtifStep): InspectMessage[] {
  const text = toText(step.message)
  if (step.source !== 'agent') return [{ role: step.source, content: text }]
  const reasoning = step.reasoning_content ? [{ type: 'reasoning', reasoning: step.reasoning_content }] : []
  const calls = (step.tool_calls ?? []).map((call, index) => ({
    id: call.tool_call_id || `call-${index + 1}`,
    function: call.function_name,
    arguments: call.arguments,
  }))
  const names = new Map(calls.map(({ id, function: name }) => [id, name]))
  const results = (step.observation?.results ?? []).map(
    ({ source_call_id: id, content }): InspectMessage => ({
      role: 'tool',
      content: toText(content),
      tool_call_id: id ?? null,
      function: names.get(id ?? '') ?? null,
    }),
  )
  const content = reasoning.length > 0 ? [...reasoning, { type: 'text', text }] : text
  return [{ role: 'assistant', content, tool_calls: calls.length > 0 ? calls : null }, ...results]
}
