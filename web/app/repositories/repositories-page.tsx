import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { useChange, useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { connectRepository, listCredentials, listRepositories } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'

/** Lists the connected repositories, and connects another one. */
export function RepositoriesPage() {
  const repositories = useRead(listRepositories, { query: { limit: 100 } })
  return (
    <Page title="Repositories">
      <Card>
        <Loaded query={repositories}>
          {({ repos }) =>
            repos.length === 0 ? (
              <Empty command="assay repos connect <owner>/<name>">
                Connected repositories appear here. Tasks are created from their merged pull requests.
              </Empty>
            ) : (
              <ul className="rows">
                {repos.map(({ owner, name, visibility, source }) => (
                  <li key={`${owner}/${name}`} className="row-line">
                    <Link to="/repos/$owner/$name" params={{ owner, name }}>
                      <bdi>
                        {owner}/{name}
                      </bdi>
                    </Link>
                    <span className="muted">
                      {visibility} ·{' '}
                      <bdi>{source.kind === 'git' ? replaceUnsafeCharacters(source.url) : source.kind}</bdi>
                    </span>
                  </li>
                ))}
              </ul>
            )
          }
        </Loaded>
      </Card>
      {useHasPermission('write') && <ConnectForm />}
    </Page>
  )
}

/** Matches `owner/name`. */
const FULL_NAME_PATTERN = '[\\w.\\-]+/[\\w.\\-]+'

function ConnectForm() {
  const [fullName, setFullName] = useState('')
  const [url, setUrl] = useState('')
  const [isPublic, setPublic] = useState(false)
  const [credentialId, setCredentialId] = useState('')
  const navigate = useNavigate()
  const connect = useChange(connectRepository, {
    invalidates: [listRepositories],
    onDone: ({ owner, name }) => void navigate({ to: '/repos/$owner/$name', params: { owner, name } }),
  })
  return (
    <Card title="Connect a repository">
      <form
        className="fields"
        onSubmit={(event) => {
          event.preventDefault()
          const [owner = '', name = ''] = fullName.split('/')
          // The visibility of a repository on GitHub is read from there.
          const repository =
            url === ''
              ? ({ source: { kind: 'github' } } as const)
              : ({ source: { kind: 'git', url }, visibility: isPublic ? 'public' : 'private' } as const)
          const body = credentialId === '' ? repository : { ...repository, credentialId }
          connect.mutate({ params: { owner, name }, body })
        }}
      >
        <label htmlFor="full-name">Owner and name</label>
        <input
          id="full-name"
          required
          pattern={FULL_NAME_PATTERN}
          placeholder="acme/billing"
          value={fullName}
          onChange={(event) => setFullName(event.target.value)}
        />
        <label htmlFor="git-url">Git address, unless it is on GitHub</label>
        <input
          id="git-url"
          placeholder="https://git.example.org/acme/billing.git"
          spellCheck={false}
          value={url}
          onChange={(event) => setUrl(event.target.value)}
        />
        {url !== '' && (
          <label className="check">
            <input type="checkbox" checked={isPublic} onChange={({ target }) => setPublic(target.checked)} /> Everyone
            can read it, and its results may be published
          </label>
        )}
        <CredentialChoice value={credentialId} onChange={setCredentialId} />
        <button type="submit" className="button primary" disabled={connect.isPending}>
          Connect
        </button>
      </form>
      {connect.isError && <ProblemNote error={connect.error} />}
    </Card>
  )
}

/** Chooses a credential for the code host or the git server. Renders nothing if the workspace has none. */
function CredentialChoice({ value, onChange }: { value: string; onChange: (id: string) => void }) {
  const credentialList = useRead(listCredentials, { query: { limit: 100 } })
  const choices = credentialList.data?.credentials.filter(({ kind }) => kind === 'code-host') ?? []
  if (choices.length === 0) return null
  return (
    <>
      <label htmlFor="code-host-credential">Credential</label>
      <select id="code-host-credential" value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">the newest for GitHub, none for other addresses</option>
        {choices.map(({ id, name, provider }) => (
          <option key={id} value={id}>
            {replaceUnsafeCharacters(name)} ({provider})
          </option>
        ))}
      </select>
    </>
  )
}
