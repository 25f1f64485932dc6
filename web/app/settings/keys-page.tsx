import { type ReactNode, useState } from 'react'
import type { Key, Permission } from '../../../src/workspaces/schema.ts'
import { useChange, useRead } from '../api/use-api.ts'
import { ConfirmButton } from '../components/confirm-button.tsx'
import { CopyText } from '../components/copy-text.tsx'
import { DataTable } from '../components/data-table.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Page } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { formatTime } from '../components/times.ts'
import { createKey, deleteKey, listKeys } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'

/** Lists the API keys of the workspace and creates new ones. A new key is shown once. */
export function KeysPage() {
  const keys = useRead(listKeys, { query: { limit: 100 } })
  const revoke = useChange(deleteKey, { invalidates: [listKeys] })
  const mayChange = useHasPermission('admin')
  return (
    <Page title="Keys">
      <Card>
        <Loaded query={keys}>
          {(loaded) => (
            <DataTable
              label="Keys"
              heads={['Name', 'Permission', 'Ends with', '#Created', '#Expires', '#Last used', '']}
            >
              {loaded.keys.map((key) => (
                <KeyRow key={key.id} apiKey={key}>
                  {mayChange && (
                    <ConfirmButton
                      label={`Revoke ${key.name}`}
                      isPending={revoke.isPending}
                      onConfirm={() => revoke.mutate({ params: { keyId: key.id } })}
                    >
                      Revoke
                    </ConfirmButton>
                  )}
                </KeyRow>
              ))}
            </DataTable>
          )}
        </Loaded>
        {revoke.isError && <ProblemNote error={revoke.error} />}
      </Card>
      {mayChange && <KeyForm />}
    </Page>
  )
}

/** A row with the facts of a key. `children` are the controls at its end. */
function KeyRow({ apiKey, children }: { apiKey: Key; children: ReactNode }) {
  const { name, permission, last4, createdAt, expiresAt, lastUsedAt } = apiKey
  return (
    <tr>
      <td>
        <bdi>{name}</bdi>
      </td>
      <td>{permission}</td>
      <td>
        <code>…{last4}</code>
      </td>
      <td className="number">{formatTime(createdAt)}</td>
      <td className="number">{expiresAt ? formatTime(expiresAt) : 'never'}</td>
      <td className="number">{lastUsedAt ? formatTime(lastUsedAt) : 'never'}</td>
      <td className="number">{children}</td>
    </tr>
  )
}

const PERMISSIONS: readonly Permission[] = ['read', 'write', 'admin']
const DAY_MS = 86_400_000

function KeyForm() {
  const [name, setName] = useState('')
  const [permission, setPermission] = useState<Permission>('read')
  const [days, setDays] = useState('90')
  const create = useChange(createKey, { invalidates: [listKeys], onDone: () => setName('') })
  const submit = () => {
    const expiresAt = days === '' ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString()
    create.mutate({ body: { name, permission, expiresAt } })
  }
  return (
    <Card title="Create a key">
      <form
        className="fields"
        onSubmit={(event) => {
          event.preventDefault()
          submit()
        }}
      >
        <label htmlFor="key-name">Name</label>
        <input id="key-name" required maxLength={200} value={name} onChange={(event) => setName(event.target.value)} />
        <label htmlFor="key-permission">Permission</label>
        <select
          id="key-permission"
          value={permission}
          onChange={(event) => setPermission(event.target.value as Permission)}
        >
          {PERMISSIONS.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
        <label htmlFor="key-days">Days until it expires; empty for never</label>
        <input
          id="key-days"
          type="number"
          min="1"
          max="3650"
          value={days}
          onChange={(event) => setDays(event.target.value)}
        />
        <button type="submit" className="button primary" disabled={create.isPending}>
          Create key
        </button>
      </form>
      {create.isError && <ProblemNote error={create.error} />}
      {create.data && <CopyText label="The new key is shown only once" text={create.data.key} />}
    </Card>
  )
}
