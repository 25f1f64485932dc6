import { useState } from 'react'
import type { Credential, CredentialProvider } from '../../../src/credentials/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { useChange, useRead } from '../api/use-api.ts'
import { ConfirmButton } from '../components/confirm-button.tsx'
import { DataTable } from '../components/data-table.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Page } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { formatTime } from '../components/times.ts'
import {
  checkCredential,
  createCredential,
  deleteCredential,
  listCredentialProviders,
  listCredentials,
} from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'

/** Lists the credentials, each with a button that asks its provider whether it accepts the credential. */
export function CredentialsPage() {
  const credentialList = useRead(listCredentials, { query: { limit: 100 } })
  const mayChange = useHasPermission('admin')
  return (
    <Page title="Credentials">
      <Card>
        <Loaded query={credentialList}>
          {({ credentials }) => (
            <DataTable label="Credentials" heads={['Provider', 'Name', 'Kind', 'From', 'Ends with', '#Last used', '']}>
              {credentials.map((credential) => (
                <CredentialRow key={credential.id} credential={credential} mayChange={mayChange} />
              ))}
            </DataTable>
          )}
        </Loaded>
      </Card>
      {mayChange && <CredentialForm />}
    </Page>
  )
}

function CredentialRow({ credential, mayChange }: { credential: Credential; mayChange: boolean }) {
  const { id, provider, name, kind, source, hint, lastUsedAt } = credential
  const params = { credentialId: id }
  const check = useChange(checkCredential)
  const remove = useChange(deleteCredential, { invalidates: [listCredentials] })
  return (
    <>
      <tr>
        <td>
          <bdi>{replaceUnsafeCharacters(provider)}</bdi>
        </td>
        <td>
          <bdi>{replaceUnsafeCharacters(name)}</bdi>
        </td>
        <td>{kind}</td>
        <td>{source}</td>
        <td>
          <bdi>{replaceUnsafeCharacters(hint)}</bdi>
        </td>
        <td className="number">{lastUsedAt ? formatTime(lastUsedAt) : 'never'}</td>
        <td className="number">
          {mayChange && (
            <button
              type="button"
              className="button"
              aria-label={`Check ${name}`}
              disabled={check.isPending}
              onClick={() => check.mutate({ params })}
            >
              Check
            </button>
          )}{' '}
          {mayChange && source === 'stored' && (
            <ConfirmButton
              label={`Delete ${name}`}
              isPending={remove.isPending}
              onConfirm={() => remove.mutate({ params })}
            >
              Delete
            </ConfirmButton>
          )}
        </td>
      </tr>
      {(check.data || check.isError || remove.isError) && (
        <tr>
          <td colSpan={7} role="status">
            {check.data && (
              <span className={check.data.ok ? 'pass-mark' : 'fail-mark'}>
                {check.data.ok ? '✓ accepted' : '× refused'}: <bdi>{replaceUnsafeCharacters(check.data.detail)}</bdi>
              </span>
            )}
            {check.isError && <ProblemNote error={check.error} />}
            {remove.isError && <ProblemNote error={remove.error} />}
          </td>
        </tr>
      )}
    </>
  )
}

const toProviderKey = ({ kind, provider }: Pick<CredentialProvider, 'kind' | 'provider'>): string =>
  `${kind} ${provider}`

function CredentialForm() {
  const providers = useRead(listCredentialProviders)
  return (
    <Card title="Store a credential">
      <Loaded query={providers}>{(loaded) => <CredentialFields providers={loaded.providers} />}</Loaded>
    </Card>
  )
}

function CredentialFields({ providers }: { providers: readonly CredentialProvider[] }) {
  const [providerKey, setProviderKey] = useState(providers[0] ? toProviderKey(providers[0]) : '')
  const [name, setName] = useState('')
  const [secret, setSecret] = useState<Record<string, string>>({})
  const provider = providers.find((each) => toProviderKey(each) === providerKey)
  const create = useChange(createCredential, {
    invalidates: [listCredentials],
    onDone: () => {
      setName('')
      setSecret({})
    },
  })
  const submit = () => {
    if (!provider) return
    const filledFields = Object.fromEntries(Object.entries(secret).filter(([, value]) => value !== ''))
    create.mutate({ body: { kind: provider.kind, provider: provider.provider, name, secret: filledFields } })
  }
  return (
    <form
      className="fields"
      autoComplete="off"
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      <label htmlFor="provider">Provider</label>
      <select
        id="provider"
        value={providerKey}
        onChange={(event) => {
          setProviderKey(event.target.value)
          setSecret({})
        }}
      >
        {providers.map((each) => (
          <option key={toProviderKey(each)} value={toProviderKey(each)}>
            {each.provider} ({each.kind})
          </option>
        ))}
      </select>
      <label htmlFor="credential-name">Name</label>
      <input
        id="credential-name"
        required
        maxLength={200}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      {provider?.fields.map((field) => (
        <SecretField
          key={`${providerKey} ${field.name}`}
          field={field}
          value={secret[field.name] ?? ''}
          onChange={(value) => setSecret({ ...secret, [field.name]: value })}
        />
      ))}
      <button type="submit" className="button primary" disabled={create.isPending}>
        Store
      </button>
      {create.isError && <ProblemNote error={create.error} />}
    </form>
  )
}

type SecretFieldProps = {
  field: CredentialProvider['fields'][number]
  value: string
  onChange: (value: string) => void
}

function SecretField({ field, value, onChange }: SecretFieldProps) {
  const id = `secret-${field.name}`
  return (
    <>
      <label htmlFor={id}>
        {field.name}
        {field.required ? '' : ' (optional)'}
      </label>
      {field.multiline ? (
        <textarea
          id={id}
          className={field.secret ? 'masked' : undefined}
          rows={4}
          spellCheck={false}
          autoComplete="off"
          required={field.required}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      ) : (
        <input
          id={id}
          type={field.secret ? 'password' : 'text'}
          autoComplete="off"
          required={field.required}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </>
  )
}
