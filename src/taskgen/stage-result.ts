/** `evidence`: what it was decided by, as it can be stored. */
export type StageRejection = { kind: 'rejected'; reason: string; detail: string; evidence?: unknown }

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

/** A rejection with what it was decided by, for who wants to know more than its words. */
export const withEvidence = <T>(result: StageResult<T>, evidence: object): StageResult<T> =>
  result.kind === 'rejected' ? { ...result, evidence: result.evidence ?? evidence } : result
