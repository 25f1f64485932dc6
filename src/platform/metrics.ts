import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

export type Metrics = {
  observeRequest(operation: string, status: number, seconds: number): void
  /** A number that is read when someone asks. */
  gauge(name: string, help: string, read: () => number | Promise<number>): void
  /** Gives what adds to it. */
  counter(name: string, help: string, labels: string[]): (labels: Record<string, string>, by?: number) => void
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
  return {
    observeRequest: (operation, status, seconds) => requests.observe({ operation, status: String(status) }, seconds),
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
      const counter = new Counter({ name, help, labelNames, registers: [registry] })
      return (labels, by = 1) => counter.inc(labels, by)
    },
    text: () => registry.metrics(),
    contentType: registry.contentType,
  }
}
