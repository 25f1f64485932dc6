import type { Webhook } from '../../../src/webhooks/schema.ts'
import { formatTime } from '../components/times.ts'

const DISABLED_TEXTS: Record<NonNullable<Webhook['disabledReason']>, string> = {
  asked: 'disabled',
  gone: 'disabled: the receiver answered 410',
  failing: 'disabled: no delivery succeeded for three days',
}

/** A chip with the state of a webhook. */
export function WebhookState({ webhook: { enabled, disabledReason, failingSince } }: { webhook: Webhook }) {
  if (!enabled) return <span className="chip">– {DISABLED_TEXTS[disabledReason ?? 'asked']}</span>
  if (failingSince) return <span className="chip fail">× failing since {formatTime(failingSince)}</span>
  return <span className="chip pass">● enabled</span>
}
