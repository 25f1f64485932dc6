import type { Db } from '../../platform/db/db.ts'
import { newSpanId, type Tracer } from '../../platform/tracing.ts'
import { formatTrialId } from '../plan.ts'
import type { TrialCall } from '../shapes/schema.ts'
import type { AttemptEnding } from './settle.ts'
import { listTrialCalls } from './spend.ts'
import type { TrialFacts } from './sql.ts'

const PHASES = ['prepare', 'agent', 'verify'] as const
/** Later calls of a trial are not traced. */
const CALLS_MAX = 1000

/** Returns the trace id of a trial: its id without hyphens, so that the trace of a trial can be found. */
const toTraceId = (trial: TrialFacts): string => formatTrialId(trial).replaceAll('-', '')

type SpanParent = { traceId: string; parentId: string }

/** Records an attempt, its phases and its model calls. */
export async function traceAttempt(
  { db, tracer }: { db: Db; tracer: Tracer },
  trial: TrialFacts,
  ending: AttemptEnding,
  startMs: number,
): Promise<void> {
  if (!tracer.isOn) return
  const parent = { traceId: toTraceId(trial), parentId: newSpanId() }
  const record = ending.kind === 'ran' ? ending.record : undefined
  tracer.record({
    traceId: parent.traceId,
    spanId: parent.parentId,
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
    error: 'error' in ending ? ending.error : (record?.error ?? undefined),
  })
  if (record) tracePhases(tracer, parent, record.timings, startMs)
  // A database that fails now must not cost the result of the attempt.
  const { calls } = await listTrialCalls(db, trial.workspaceId, trial, { limit: CALLS_MAX }).catch(() => ({
    calls: [],
  }))
  for (const call of calls) if (Date.parse(call.at) >= startMs) traceCall(tracer, parent, call)
}

/** Records a span for each phase. Its start is the end of the phase before. */
function tracePhases(
  tracer: Tracer,
  parent: SpanParent,
  timings: Record<(typeof PHASES)[number], number>,
  attemptStartMs: number,
): void {
  let startMs = attemptStartMs
  for (const name of PHASES) {
    const endMs = startMs + timings[name] * 1000
    tracer.record({ ...parent, name, kind: 'internal', startMs, endMs, attributes: {} })
    startMs = endMs
  }
}

/** Attributes follow OpenTelemetry's conventions for generative AI. */
function traceCall(tracer: Tracer, parent: SpanParent, call: TrialCall): void {
  const startMs = Date.parse(call.at)
  const { input, cacheRead, cacheWrite, output } = call.usage
  tracer.record({
    ...parent,
    name: 'chat',
    kind: 'client',
    startMs,
    endMs: startMs + (call.totalMs ?? 0),
    attributes: {
      'gen_ai.operation.name': 'chat',
      'gen_ai.response.model': call.model ?? undefined,
      'gen_ai.usage.input_tokens': input + cacheRead + cacheWrite,
      'gen_ai.usage.output_tokens': output,
      'http.response.status_code': call.status ?? undefined,
      'assay.call': call.id,
      'assay.cost_usd': call.costUsd ?? undefined,
      'assay.tries': call.tries,
    },
    error: call.outcome === 'succeeded' ? undefined : (call.message ?? call.outcome),
  })
}
