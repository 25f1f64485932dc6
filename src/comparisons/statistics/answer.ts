import { toUsd } from '../../platform/usd.ts'
import { type Answer, buildAnswer } from '../../statistics/answer.ts'
import type { ComparisonStatistics } from '../../statistics/comparison-statistics.ts'
import { DRAWS } from '../../statistics/frontier.ts'
import type { Comparison, ComparisonSetting } from '../shapes/schema.ts'

/** The fields of a setting that an answer names. */
type NamedSetting = Pick<ComparisonSetting, 'id' | 'harness' | 'reasoningLevel' | 'provider'> & {
  model: { name: string }
  configuration?: { name: string; version: number } | undefined
}

type AnsweredComparison = {
  state: string
  /** Number of tasks. Null until they are frozen. */
  tasks: number | null
  attempts: number
  trials: { total: number; queued: number; running: number }
}

/** States in which no more results are expected. */
const ENDED_STATES: readonly string[] = ['completed', 'canceled']

/** Converts the statistics of a comparison to its answer. */
export function toAnswer(
  { state, tasks, attempts, trials }: AnsweredComparison,
  settings: readonly NamedSetting[],
  statistics: ComparisonStatistics,
): Answer {
  const hasConfigurations = settings.some(({ configuration }) => configuration)
  return buildAnswer({
    isCollecting: !ENDED_STATES.includes(state),
    finished: trials.total - trials.queued - trials.running,
    total: trials.total,
    plan: { tasks, attempts },
    settings: settings.map((setting) => ({
      id: setting.id,
      name: describeSetting(setting, { hasConfigurations }),
      isReference: setting.provider === 'none',
    })),
    statistics,
  })
}

/**
 * Describes a setting in words: `claude-sonnet-5 with claude-code at high`. If a setting of the comparison has a
 * configuration, each description names its own: `… and agents-md@2`, `… and no configuration`.
 */
function describeSetting(setting: NamedSetting, { hasConfigurations }: { hasConfigurations: boolean }): string {
  const { model, harness, reasoningLevel, configuration } = setting
  const level = reasoningLevel === 'none' ? '' : ` at ${reasoningLevel}`
  const name = configuration ? `${configuration.name}@${configuration.version}` : 'no configuration'
  return `${model.name} with ${harness}${level}${hasConfigurations ? ` and ${name}` : ''}`
}

/** Names of the methods, as results report them. */
export const METHODS = { rank: 'holm-paired-t', frontierProbability: `task-bootstrap-${DRAWS}-sfc32` }

/** Adds statistics and answer to a status. */
export function addStatistics(status: Comparison, statistics: ComparisonStatistics): Comparison {
  return {
    ...status,
    settings: status.settings.map((setting, index) => ({
      ...setting,
      stats: { ...setting.stats, ...toSettingStats(statistics.settings[index]) },
    })),
    answer: toAnswer({ ...status, tasks: status.frozen?.tasks ?? null }, status.settings, statistics),
  }
}

function toSettingStats(setting: ComparisonStatistics['settings'][number] | undefined) {
  return {
    costCi95: setting?.cost
      ? {
          low: toUsd(setting.cost.low),
          high: toUsd(setting.cost.high),
          level: 0.95,
          method: 'johnson-t',
          tasks: setting.tasks,
        }
      : null,
    rank: setting?.rank ?? null,
    frontierProbability: setting?.frontierProbability ?? null,
    methods: METHODS,
  }
}
