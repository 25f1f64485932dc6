import type { Metrics } from '../platform/metrics.ts'
import type { NewCall, Refusal, Settlement } from './ledger.ts'

export type Counters = {
  settled(call: NewCall, settlement: Settlement): void
  refused(reason: Refusal): void
  retried(why: string): void
}

/** Creates the Prometheus counters of a gateway. */
export function gatewayCounters(metrics: Metrics): Counters {
  const calls = metrics.counter('assay_gateway_calls_total', 'Settled calls', ['protocol', 'outcome', 'cost_source'])
  const tokens = metrics.counter('assay_gateway_tokens_total', 'Tokens of settled calls', ['class'])
  const cost = metrics.counter('assay_gateway_cost_micros_total', 'Cost of settled calls in micro-dollars', [])
  const refused = metrics.counter('assay_gateway_refused_total', 'Refused requests', ['reason'])
  const retried = metrics.counter('assay_gateway_retries_total', 'Retries', ['why'])
  return {
    settled(call, { outcome, costSource, costMicros, usage }) {
      calls({ protocol: call.protocol, outcome, cost_source: costSource })
      cost({}, costMicros ?? 0)
      for (const [name, count] of Object.entries(usage)) if (count > 0) tokens({ class: name }, count)
    },
    refused: (reason) => refused({ reason }),
    retried: (why) => retried({ why }),
  }
}
