import { newSpanId, type Tracer } from '../../platform/tracing.ts'
import { formatTrialId } from '../trial-id.ts'
import type { AttemptEnding } from './settle.ts'
import type { TrialFacts } from './sql.ts'

const PHASES = ['prepare', 'agent', 'verify'] as const

/** Returns the trace id of a trial: its id without hyphens, so that the trace of a trial can be found. */
const toTraceId = (trial: TrialFacts): string => formatTrialId(trial).replaceAll('-', '')

/** Records an attempt and its phases. The phases follow one another, so their durations give their start. */
export function traceAttempt(tracer: Tracer, trial: TrialFacts, ending: AttemptEnding, startMs: number): void {
  const traceId = toTraceId(trial)
  const spanId = newSpanId()
  const record = ending.kind === 'ran' ? ending.record : undefined
  const error = 'error' in ending ? ending.error : (record?.error ?? undefined)
  tracer.record({
    traceId,
    spanId,
    name: 'trial attempt',
    kind: 'internal',
    startMs,
    endMs: Date.now(),
    attributes: {
      'assay.trial': formatTrialId(trial),
      'assay.attempt': trial.attempt,
      'assay.harness': trial.harness,
      'assay.model': trial.catalogId,
      'assay.reasoning_level': trial.reasoningLevel,
      'assay.ending': ending.kind,
      'assay.state': record?.state,
      'assay.class': record?.class,
    },
    error,
  })
  if (!record) return
  let phaseStartMs = startMs
  for (const phase of PHASES) {
    const endMs = phaseStartMs + record.timings[phase] * 1000
    tracer.record({
      traceId,
      parentId: spanId,
      name: phase,
      kind: 'internal',
      startMs: phaseStartMs,
      endMs,
      attributes: {},
    })
    phaseStartMs = endMs
  }
}
