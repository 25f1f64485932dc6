import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import type { Delivery, Webhook } from '../../../src/webhooks/schema.ts'
import { useChange, useRead } from '../api/use-api.ts'
import { ConfirmButton } from '../components/confirm-button.tsx'
import { CopyText } from '../components/copy-text.tsx'
import { DataTable } from '../components/data-table.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { formatTime } from '../components/times.ts'
import {
  deleteWebhook,
  listDeliveries,
  listWebhooks,
  readDelivery,
  readWebhook,
  redeliver,
  testWebhook,
  updateWebhook,
} from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'
import { WebhookState } from './webhook-state.tsx'

const ROUTE = '/settings/webhooks/$webhookId'
const REFRESH_MS = 3000

/** Shows a webhook with its deliveries of the last 30 days. */
export function WebhookPage() {
  const params = useParams({ from: ROUTE })
  const webhook = useRead(readWebhook, { params })
  const deliveries = useRead(listDeliveries, { params, query: { limit: 100 } }, { refetchMs: REFRESH_MS })
  const mayChange = useHasPermission('admin')
  return (
    <Page
      title={webhook.data ? replaceUnsafeCharacters(webhook.data.origin) : 'Webhook'}
      crumbs={<Link to="/settings/webhooks">Webhooks</Link>}
      state={webhook.data && <WebhookState webhook={webhook.data} />}
    >
      <Loaded query={webhook}>
        {(loaded) => (
          <Card>
            {loaded.description && (
              <p>
                <bdi>{replaceUnsafeCharacters(loaded.description)}</bdi>
              </p>
            )}
            <p className="small muted">Receives {loaded.events.join(', ')}</p>
            {mayChange && <WebhookControls webhook={loaded} />}
          </Card>
        )}
      </Loaded>
      <Card title="Deliveries">
        <Loaded query={deliveries}>
          {(loaded) =>
            loaded.deliveries.length === 0 ? (
              <Empty command={`assay webhooks test ${params.webhookId}`}>
                Messages that were sent appear here with the answer of the receiver.
              </Empty>
            ) : (
              <DataTable
                label="Deliveries"
                heads={['Event', 'State', '#Attempts', '#Status', '#Time', '#Last attempt', '']}
              >
                {loaded.deliveries.map((delivery) => (
                  <DeliveryRow key={delivery.id} delivery={delivery} mayChange={mayChange} />
                ))}
              </DataTable>
            )
          }
        </Loaded>
      </Card>
    </Page>
  )
}

function WebhookControls({ webhook: { id, origin, enabled } }: { webhook: Webhook }) {
  const params = { webhookId: id }
  const navigate = useNavigate()
  const test = useChange(testWebhook, { invalidates: [listDeliveries] })
  const update = useChange(updateWebhook, { invalidates: [readWebhook, listWebhooks] })
  const remove = useChange(deleteWebhook, {
    invalidates: [listWebhooks],
    onDone: () => void navigate({ to: '/settings/webhooks' }),
  })
  const error = test.error ?? update.error ?? remove.error
  return (
    <>
      <p className="actions">
        <button type="button" className="button" disabled={test.isPending} onClick={() => test.mutate({ params })}>
          Send a test
        </button>
        <button
          type="button"
          className="button"
          disabled={update.isPending}
          onClick={() => update.mutate({ params, body: { enabled: !enabled } })}
        >
          {enabled ? 'Disable' : 'Enable'}
        </button>
        <ConfirmButton
          label="Rotate the secret"
          isPending={update.isPending}
          onConfirm={() => update.mutate({ params, body: { newSecret: true } })}
        >
          Rotate the secret
        </ConfirmButton>
        <ConfirmButton
          label={`Delete ${origin}`}
          isPending={remove.isPending}
          onConfirm={() => remove.mutate({ params })}
        >
          Delete
        </ConfirmButton>
      </p>
      {error && <ProblemNote error={error} />}
      {update.data?.secret && <CopyText label="The signing secret is shown only once" text={update.data.secret} />}
    </>
  )
}

const STATE_MARKS = {
  pending: { mark: '● pending', className: 'muted' },
  delivered: { mark: '✓ delivered', className: 'pass-mark' },
  failed: { mark: '× failed', className: 'fail-mark' },
} as const

function DeliveryRow({ delivery, mayChange }: { delivery: Delivery; mayChange: boolean }) {
  const { id, event, state, attempts, status, error, tookMs, attemptedAt, nextAt: nextAttemptAt } = delivery
  const params = useParams({ from: ROUTE })
  const [isOpen, setOpen] = useState(false)
  const redelivery = useChange(redeliver, { invalidates: [listDeliveries] })
  const { mark, className } = STATE_MARKS[state]
  return (
    <>
      <tr>
        <td>
          <button type="button" className="link-button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {event}
          </button>
        </td>
        <td className={className}>{mark}</td>
        <td className="number">{attempts}</td>
        <td className="number">{status ?? '–'}</td>
        <td className="number">{tookMs === null ? '–' : `${tookMs} ms`}</td>
        <td className="number">{attemptedAt ? formatTime(attemptedAt) : '–'}</td>
        <td className="number">
          {mayChange && state !== 'pending' && (
            <button
              type="button"
              className="button"
              aria-label={`Send again: ${event}`}
              disabled={redelivery.isPending}
              onClick={() => redelivery.mutate({ params: { ...params, deliveryId: id } })}
            >
              Send again
            </button>
          )}
        </td>
      </tr>
      {(isOpen || redelivery.isError) && (
        <tr>
          <td colSpan={7}>
            {error && (
              <p className="fail-mark">
                <bdi>{replaceUnsafeCharacters(error)}</bdi>
              </p>
            )}
            {nextAttemptAt && <p className="muted">Next attempt: {formatTime(nextAttemptAt)}</p>}
            {redelivery.isError && <ProblemNote error={redelivery.error} />}
            {isOpen && <DeliveryBody deliveryId={id} />}
          </td>
        </tr>
      )}
    </>
  )
}

function DeliveryBody({ deliveryId }: { deliveryId: string }) {
  const params = useParams({ from: ROUTE })
  const delivery = useRead(readDelivery, { params: { ...params, deliveryId } })
  return (
    <Loaded query={delivery}>
      {({ body }) => <CopyText label="Body as it was signed" text={replaceUnsafeCharacters(body)} />}
    </Loaded>
  )
}
