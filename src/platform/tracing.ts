import { randomBytes } from 'node:crypto'
import type { Log } from './log.ts'

/** A finished piece of work, such as a request or a phase of a trial. */
type FinishedSpan = {
  traceId: string
  /** Needed only if other spans name it as their parent. Default: a new id. */
  spanId?: string | undefined
  parentId?: string | undefined
  name: string
  kind: 'internal' | 'server' | 'client'
  startMs: number
  endMs: number
  attributes: Record<string, string | number | boolean | undefined>
  /** Set if the work failed. */
  error?: string | undefined
}

export type Tracer = {
  /** False if spans are discarded, so that nothing has to be collected for them. */
  isOn: boolean
  record(span: FinishedSpan): void
  /** Sends the spans that wait, and ends the tracer. */
  stop(): Promise<void>
}

export type TracingSettings = {
  /** Base URL of an OpenTelemetry collector. */
  endpoint: string
  headers: Record<string, string>
  serviceName: string
}

export const noTracer: Tracer = { isOn: false, record: () => undefined, stop: async () => undefined }

export const newTraceId = (): string => randomBytes(16).toString('hex')
export const newSpanId = (): string => randomBytes(8).toString('hex')

/** Parses a `traceparent` header of W3C Trace Context. Returns undefined if it is invalid. */
export function parseTraceParent(header: unknown): { traceId: string; parentId: string } | undefined {
  if (typeof header !== 'string') return undefined
  const [, traceId, parentId] = /^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/.exec(header) ?? []
  if (!traceId || !parentId || /^0+$/.test(traceId) || /^0+$/.test(parentId)) return undefined
  return { traceId, parentId }
}

const SEND_INTERVAL_MS = 5000
const SEND_TIMEOUT_MS = 10_000
/** Maximum number of spans that wait to be sent. More are dropped: tracing must never slow down or stop the service. */
const WAITING_SPANS_MAX = 2048

/**
 * Creates a tracer that sends spans to a collector with OTLP over HTTP, as JSON. Only the first of consecutive failures
 * is logged.
 */
export function createTracer(settings: TracingSettings, log: Log): Tracer {
  let waiting: FinishedSpan[] = []
  let sending: Promise<void> = Promise.resolve()
  let isFailing = false
  const send = async (): Promise<void> => {
    const spans = waiting
    waiting = []
    if (spans.length === 0) return
    const failure = await post(settings, spans).catch((error: unknown) => ({ error }))
    if (failure && !isFailing) log.warn(failure, 'failed to send traces')
    isFailing = failure !== undefined
  }
  const timer = setInterval(() => {
    sending = sending.then(send)
  }, SEND_INTERVAL_MS)
  timer.unref()
  return {
    isOn: true,
    record(span) {
      if (waiting.length < WAITING_SPANS_MAX) waiting.push(span)
    },
    async stop() {
      clearInterval(timer)
      await sending
      await send()
    },
  }
}

/** Sends spans. Returns the error to log, or undefined if they were accepted. */
async function post({ endpoint, headers, serviceName }: TracingSettings, spans: readonly FinishedSpan[]) {
  const answer = await fetch(`${endpoint.replace(/\/$/, '')}/v1/traces`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(toOtlp(serviceName, spans)),
    redirect: 'error',
    signal: AbortSignal.timeout(SEND_TIMEOUT_MS),
  })
  await answer.body?.cancel()
  return answer.ok ? undefined : { status: answer.status }
}

/** Numbers of OTLP for the kind of a span and for its status. */
const KINDS = { internal: 1, server: 2, client: 3 }
const STATUS = { unset: 0, error: 2 }

/** Builds the JSON form of an `ExportTraceServiceRequest`. */
const toOtlp = (serviceName: string, spans: readonly FinishedSpan[]) => ({
  resourceSpans: [
    {
      resource: { attributes: toAttributes({ 'service.name': serviceName }) },
      scopeSpans: [{ scope: { name: 'assay' }, spans: spans.map(toOtlpSpan) }],
    },
  ],
})

const toOtlpSpan = (span: FinishedSpan) => ({
  traceId: span.traceId,
  spanId: span.spanId ?? newSpanId(),
  parentSpanId: span.parentId,
  name: span.name,
  kind: KINDS[span.kind],
  startTimeUnixNano: toNanoseconds(span.startMs),
  endTimeUnixNano: toNanoseconds(span.endMs),
  attributes: toAttributes(span.attributes),
  status: span.error === undefined ? { code: STATUS.unset } : { code: STATUS.error, message: span.error },
})

/** Converts a time to nanoseconds since 1970, as text: they exceed the precision of a number. */
const toNanoseconds = (ms: number): string => String(BigInt(Math.round(ms * 1000)) * 1000n)

const toAttributes = (attributes: FinishedSpan['attributes']) =>
  Object.entries(attributes).flatMap(([key, value]) => (value === undefined ? [] : [{ key, value: toValue(value) }]))

function toValue(value: string | number | boolean) {
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value }
}

type TracedRequest = {
  incoming: { method?: string | undefined; headers: Record<string, unknown> }
  requestId: string
  traceId: string
}
type FinishedRequest = { operation: string; status: number; ms: number }

/** Records a request that has just been answered. */
export function traceRequest(
  tracer: Tracer,
  { incoming, requestId, traceId }: TracedRequest,
  { operation, status, ms }: FinishedRequest,
): void {
  const endMs = Date.now()
  tracer.record({
    traceId,
    parentId: parseTraceParent(incoming.headers.traceparent)?.parentId,
    name: operation,
    kind: 'server',
    startMs: endMs - ms,
    endMs,
    attributes: {
      'http.request.method': incoming.method,
      'http.response.status_code': status,
      'assay.request_id': requestId,
    },
    error: status >= 500 ? `status ${status}` : undefined,
  })
}
