import type { Webhook } from '../../../src/webhooks/schema.ts'
import { formatTime } from '../components/times.ts'

const DISABLED: Record<NonNullable<Webhook['disabledReason']>, string> = {
  asked: 'disabled',
  gone: 'disabled: the receiver answered 410',
  failing: 'disabled: no delivery succeeded for three days',
}

/** State of a webhook by shape and colour. */
export function WebhookState({ webhook: { enabled, disabledReason, failingSince } }: { webhook: Webhook }) {
  if (!enabled) return <span className="chip">– {DISABLED[disabledReason ?? 'asked']}</span>
  if (failingSince) return <span className="chip fail">× failing since {formatTime(failingSince)}</span>
  return <span className="chip pass">● enabled</span>
}
