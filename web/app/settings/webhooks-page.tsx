import { Link } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import type { Webhook, WebhookEvent } from '../../../src/webhooks/schema.ts'
import { useChange, useRead } from '../api/use-api.ts'
import { CopyText } from '../components/copy-text.tsx'
import { DataTable } from '../components/data-table.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { createWebhook, listWebhooks } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'
import { WebhookState } from './webhook-state.tsx'

/** Lists the webhooks of the workspace and adds new ones. The signing secret of a new webhook is shown once. */
export function WebhooksPage() {
  const webhookList = useRead(listWebhooks, { query: { limit: 100 } })
  return (
    <Page title="Webhooks">
      <Card>
        <Loaded query={webhookList}>
          {({ webhooks }) =>
            webhooks.length === 0 ? (
              <Empty command="assay webhooks add https://hooks.example.org/assay">
                Receivers of signed messages appear here. Each is notified when, for example, a comparison completes, a
                batch fails or a release is published.
              </Empty>
            ) : (
              <DataTable label="Webhooks" heads={['Receiver', 'Description', 'Events', 'State']}>
                {webhooks.map((webhook) => (
                  <WebhookRow key={webhook.id} webhook={webhook} />
                ))}
              </DataTable>
            )
          }
        </Loaded>
      </Card>
      {useHasPermission('admin') && <WebhookForm />}
    </Page>
  )
}

function WebhookRow({ webhook }: { webhook: Webhook }) {
  const { id, origin, description, events } = webhook
  return (
    <tr>
      <td>
        <Link to="/settings/webhooks/$webhookId" params={{ webhookId: id }}>
          <bdi>{replaceUnsafeCharacters(origin)}</bdi>
        </Link>
      </td>
      <td>
        <bdi>{replaceUnsafeCharacters(description)}</bdi>
      </td>
      <td>{events.length === EVENT_NAMES.length ? 'all' : events.join(', ')}</td>
      <td>
        <WebhookState webhook={webhook} />
      </td>
    </tr>
  )
}

/** All events as keys of a record, so that the compiler reports a missing event. */
const EVENTS: Record<WebhookEvent, true> = {
  'benchmark.added': true,
  'batch.completed': true,
  'batch.failed': true,
  'comparison.completed': true,
  'comparison.submission_failed': true,
  'comparison.paused': true,
  'release.published': true,
  'release.withdrawn': true,
}
const EVENT_NAMES = Object.keys(EVENTS) as WebhookEvent[]

function WebhookForm() {
  const [url, setUrl] = useState('')
  const [description, setDescription] = useState('')
  const [events, setEvents] = useState<readonly WebhookEvent[]>(EVENT_NAMES)
  const create = useChange(createWebhook, {
    invalidates: [listWebhooks],
    onDone: () => {
      setUrl('')
      setDescription('')
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    create.mutate({ body: { url, description, events: [...events] } })
  }
  return (
    <Card title="Add a webhook">
      <form className="fields" onSubmit={submit}>
        <label htmlFor="webhook-url">Address, https; stored encrypted and never shown again</label>
        <input
          id="webhook-url"
          type="url"
          required
          maxLength={2000}
          placeholder="https://hooks.example.org/assay"
          value={url}
          onChange={({ target }) => setUrl(target.value)}
        />
        <label htmlFor="webhook-description">Description</label>
        <input
          id="webhook-description"
          maxLength={200}
          value={description}
          onChange={({ target }) => setDescription(target.value)}
        />
        <fieldset className="choices">
          <legend className="small muted">Events</legend>
          {EVENT_NAMES.map((name) => (
            <label key={name} className="check">
              <input
                type="checkbox"
                checked={events.includes(name)}
                onChange={({ target }) =>
                  setEvents(target.checked ? [...events, name] : events.filter((each) => each !== name))
                }
              />{' '}
              {name}
            </label>
          ))}
        </fieldset>
        <button type="submit" className="button primary" disabled={create.isPending || events.length === 0}>
          Add webhook
        </button>
      </form>
      {create.isError && <ProblemNote error={create.error} />}
      {create.data && <CopyText label="The signing secret is shown only once" text={create.data.secret} />}
    </Card>
  )
}
