import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

/**
 * Metrics of this process. Label values come from fixed sets, such as operation ids: names, ids or addresses would let
 * clients create an unbounded number of time series.
 */
export type Metrics = {
  observeRequest(operation: string, status: number, seconds: number): void
  /** Registers a gauge that is read on each scrape. */
  gauge(name: string, help: string, read: () => number | Promise<number>): void
  /** Registers a counter and returns the function that increments it. */
  counter(name: string, help: string, labels: string[]): (labels: Record<string, string>, by?: number) => void
  text(): Promise<string>
  contentType: string
}

/** Metrics of the process itself, such as its memory. Created once, because its timers and observers never end. */
let processRegistry: Registry | undefined

function getProcessRegistry(): Registry {
  if (processRegistry) return processRegistry
  processRegistry = new Registry()
  collectDefaultMetrics({ register: processRegistry, prefix: 'assay_' })
  return processRegistry
}

export function createMetrics(): Metrics {
  const registry = new Registry()
  const allRegistries = [getProcessRegistry(), registry]
  // Two metrics, because each label of a histogram multiplies its buckets.
  const requests = new Counter({
    name: 'assay_http_requests_total',
    help: 'Answered requests by operation and class of status, such as 4xx',
    labelNames: ['operation', 'status'],
    registers: [registry],
  })
  const durations = new Histogram({
    name: 'assay_http_request_seconds',
    help: 'Time to answer a request',
    labelNames: ['operation'],
    buckets: [0.005, 0.02, 0.1, 0.5, 2.5, 10],
    registers: [registry],
  })
  return {
    observeRequest: (operation, status, seconds) => {
      requests.inc({ operation, status: `${Math.floor(status / 100)}xx` })
      durations.observe({ operation }, seconds)
    },
    gauge: (name, help, read) => {
      new Gauge({
        name,
        help,
        registers: [registry],
        async collect() {
          this.set(await read())
        },
      })
    },
    counter: (name, help, labelNames) => {
      // Several apps of one process share the registry.
      const existing = registry.getSingleMetric(name)
      const counter =
        existing instanceof Counter ? existing : new Counter({ name, help, labelNames, registers: [registry] })
      return (labels, by = 1) => counter.inc(labels, by)
    },
    text: async () => (await Promise.all(allRegistries.map((each) => each.metrics()))).join('\n'),
    contentType: registry.contentType,
  }
}
