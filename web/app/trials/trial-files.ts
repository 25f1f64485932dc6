import type { ComparisonTrial, LocatedTrial } from '../../../src/comparisons/shapes/schema.ts'
import { formatDuration } from '../../components/format.ts'
import type { Api } from '../api/api.ts'
import { toTarget } from '../comparisons/scope.ts'

/**
 * Returns the endpoints and path parameters that read the files and calls of a trial. A reused trial has none itself;
 * those of the earlier trial are read.
 */
export function toTrialTarget({ id, reusedFrom, comparison }: LocatedTrial) {
  const { endpoints, params } = toTarget(comparison.scope)
  return { endpoints, params: { ...params, comparisonId: comparison.id, trialId: reusedFrom ?? id } }
}

export function openArtifact(api: Api, trial: LocatedTrial, artifact: string, signal?: AbortSignal): Promise<Response> {
  const { endpoints, params } = toTrialTarget(trial)
  return api.openFile(endpoints.artifact, { params: { ...params, artifact } }, signal)
}

export function toArtifactUrl(api: Api, trial: LocatedTrial, artifact: string): string {
  const { endpoints, params } = toTrialTarget(trial)
  return api.urlOf(endpoints.artifact, { params: { ...params, artifact } })
}

export const PATCH = 'changes.patch'

// Names of artifacts. A task with several steps has one file of each kind per step.
export const isTrajectory = (name: string): boolean => /^trajectory[^/]*\.json$/.test(name)
export const isRecording = (name: string): boolean => /^agent[^/]*\.cast$/.test(name)
export const isVerifierLog = (name: string): boolean => /^verifier[^/]*\.log$/.test(name)
export const isLog = (name: string): boolean => /^[^/]+\.log$/.test(name) && !isVerifierLog(name)

/** Returns true if the trial has not ended. */
export const isOpenTrial = ({ state }: Pick<ComparisonTrial, 'state'>): boolean =>
  state === 'queued' || state === 'running'

/** Explains why a trial does not have some content, for example `The patch`. */
export function explainMissing(trial: LocatedTrial, content: string): string {
  if (isOpenTrial(trial)) return `The trial is ${trial.state}. ${content} appears here when it has ended.`
  return trial.artifacts.length === 0
    ? 'The trial has no files: it ended before the agent started, or they have expired.'
    : `${content} was not recorded for this trial.`
}

const UNITS = ['B', 'kB', 'MB', 'GB']

/** Formats a size in the largest unit that leaves a number of at least 1, with a decimal below 100: `1.5 MB`. */
export function formatBytes(bytes: number): string {
  const unit = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3))
  const value = bytes / 1000 ** unit
  const isWhole = unit === 0 || value >= 100
  return `${isWhole ? Math.round(value) : value.toFixed(1)}\u00a0${UNITS[unit]}`
}

/** Formats a duration. Durations below ten seconds have a decimal. */
export const formatSeconds = (seconds: number): string =>
  seconds < 10 ? `${seconds.toFixed(1)}\u00a0s` : formatDuration(seconds)
