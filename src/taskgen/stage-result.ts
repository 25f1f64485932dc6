/** Ends a candidate: it does not become a task. */
export type StageRejection = {
  kind: 'rejected'
  reason: string
  detail: string
  /** Facts that the decision is based on, as they can be stored. */
  evidence?: unknown
  /** True if a busy host alone may be the cause. On a busy host the stage is then deferred instead. */
  isLoadSensitive?: boolean
}

/** Postpones a stage. Resolves by itself or after manual action. */
export type StageDeferral = {
  kind: 'deferred'
  reason: 'rate_limit' | 'credential' | 'budget' | 'provider' | 'config' | 'sandbox'
  detail: string
  retryAfterMs: number
}

export type StageResult<T> = { kind: 'done'; value: T } | StageRejection | StageDeferral

export const done = <T>(value: T): StageResult<T> => ({ kind: 'done', value })
export const reject = (reason: string, detail: string, evidence?: unknown): StageRejection => ({
  kind: 'rejected',
  reason,
  detail,
  evidence,
})

/** Rejects for a time limit, or for runs that differ, which may be due to the load of the host. */
export const rejectForTiming = (reason: string, detail: string): StageRejection => ({
  kind: 'rejected',
  reason,
  detail,
  isLoadSensitive: true,
})

/** Adds the evidence on which a rejection is based. */
export const withEvidence = <T>(result: StageResult<T>, evidence: object): StageResult<T> =>
  result.kind === 'rejected' ? { ...result, evidence: result.evidence ?? evidence } : result
