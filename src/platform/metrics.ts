import { collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

export type Metrics = {
  observeRequest(operation: string, status: number, seconds: number): void
  observeJob(kind: string, outcome: string, seconds: number): void
  /** A number that is read when someone asks. */
  gauge(name: string, help: string, read: () => number | Promise<number>): void
  text(): Promise<string>
  contentType: string
}

export function createMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, prefix: 'assay_' })
  const requests = new Histogram({
    name: 'assay_http_request_seconds',
    help: 'Time to answer a request',
    labelNames: ['operation', 'status'],
    buckets: [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5, 30],
    registers: [registry],
  })
  const jobs = new Histogram({
    name: 'assay_job_seconds',
    help: 'Time to run a job',
    labelNames: ['kind', 'outcome'],
    buckets: [0.01, 0.1, 1, 10, 60, 600, 3600],
    registers: [registry],
  })
  return {
    observeRequest: (operation, status, seconds) => requests.observe({ operation, status: String(status) }, seconds),
    observeJob: (kind, outcome, seconds) => jobs.observe({ kind, outcome }, seconds),
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
    text: () => registry.metrics(),
    contentType: registry.contentType,
  }
}
