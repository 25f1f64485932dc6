import type { IncomingMessage } from 'node:http'
import { parseTraceParent, type Tracer } from '../tracing.ts'

type TracedRequest = { incoming: IncomingMessage; requestId: string; traceId: string }
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
