import { z } from 'zod'
import { type TrialArtifact, TrialState } from '../../src/comparisons/shapes/schema.ts'
import { listTrials } from '../comparison-trials.ts'
import { alignColumns, formatCount } from '../table.ts'
import { formatTrajectory } from '../trajectory-text.ts'
import { locateTrial, type OpenedTrial, readText, toFacts } from '../trials.ts'
import { comparisonId, openComparison, scopeInput } from './comparison-tools.ts'
import { defineTool, type McpTool } from './tool.ts'

const TRIALS_MAX = 100

export const trialTools: McpTool[] = [
  defineTool({
    name: 'list_trials',
    title: 'List the trials of a comparison',
    description: 'List trials with state, cost and the reason why a trial has no full score.',
    effect: 'reads',
    input: z.object({
      ...scopeInput,
      comparison: comparisonId,
      state: TrialState.optional(),
      setting: z.string().max(500).optional().describe('Setting id, as read_answer names it'),
      max: z.number().int().min(1).max(TRIALS_MAX).default(TRIALS_MAX),
    }),
    run: async (context, { comparison, state, setting, max, ...given }) => {
      const { service, scope, params } = await openComparison(context, given, comparison)
      const trials = await listTrials(service, { scope, id: params.comparisonId }, { state, setting }, max)
      const reasons = trials.flatMap(({ id, explanation, error }) => {
        const reason = explanation ?? error
        return reason === undefined ? [] : [[id, reason]]
      })
      return {
        message: `${formatCount(trials.length, 'trial')} of comparison ${params.comparisonId}. Next: read_trial.`,
        lines: alignColumns(
          trials.map((trial) => [trial.id, trial.state, trial.class ?? '-', trial.settingId, trial.task.name]),
        ),
        data: {
          comparison: params.comparisonId,
          trials: trials.map((trial) => ({
            trial: trial.id,
            task: trial.task.name,
            setting: trial.settingId,
            attempt: trial.attempt,
            state: trial.state,
            class: trial.class,
            costUsd: trial.costUsd,
          })),
        },
        untrusted: reasons.length === 0 ? undefined : { reasons: Object.fromEntries(reasons) },
      }
    },
  }),
  defineTool({
    name: 'read_trial',
    title: 'Look into a trial',
    description: 'Read why a trial failed, its logs, the changes that the agent made, or its trajectory.',
    effect: 'reads',
    input: z.object({
      trial: z.uuid().describe('Trial id, as list_trials names it'),
      part: z.enum(['summary', 'logs', 'changes', 'trajectory']).default('summary'),
    }),
    run: async ({ openService }, { trial: id, part }) => {
      const opened = await locateTrial(await openService(), id)
      const { trial, scope } = opened
      return {
        message: `Trial ${trial.id} is ${trial.state}.`,
        data: { trial: trial.id, state: trial.state, class: trial.class, reward: trial.reward, costUsd: trial.costUsd },
        untrusted: {
          [part]:
            part === 'summary' ? alignColumns(toFacts(trial, scope)).join('\n') : await readPart(opened, PARTS[part]),
        },
      }
    },
  }),
]

type TrialPart = { pattern: RegExp; format?: (text: string) => string }

const PARTS: Record<'logs' | 'changes' | 'trajectory', TrialPart> = {
  logs: { pattern: /^[^/]+\.log$/ },
  changes: { pattern: /^changes\.patch$/ },
  trajectory: {
    pattern: /^trajectory[^/]*\.json$/,
    format: (text) => formatTrajectory(JSON.parse(text)).join('\n'),
  },
}

async function readPart(opened: OpenedTrial, { pattern, format = (text) => text }: TrialPart): Promise<string> {
  const files = opened.trial.artifacts.filter(({ name }) => pattern.test(name))
  const read = async (file: TrialArtifact) => `==> ${file.name} <==\n${format(await readText(opened, file))}`
  return files.length === 0 ? 'The trial has no such file.' : (await Promise.all(files.map(read))).join('\n')
}
