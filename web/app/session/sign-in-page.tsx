import { type FormEvent, useState } from 'react'
import { call } from '../../../src/platform/http/client.ts'
import type { Session } from '../../../src/workspaces/schema.ts'
import { ANONYMOUS } from '../api/api.ts'
import { ProblemNote } from '../components/problem-note.tsx'
import { createSession } from '../endpoints.gen.ts'

export function SignInPage({ onSignedIn }: { onSignedIn: (session: Session) => void }) {
  const [key, setKey] = useState('')
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()

  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      const { body } = await call(ANONYMOUS, createSession, { body: { key: key.trim() } })
      onSignedIn(body)
    } catch (failure) {
      setError(failure)
      setBusy(false)
    }
  }

  return (
    <main className="sign-in">
      <title>Sign in · Assay</title>
      <p className="brand">Assay</p>
      <h1>Sign in</h1>
      <form onSubmit={submit}>
        <label htmlFor="key">Workspace key</label>
        <input
          id="key"
          type="password"
          autoComplete="current-password"
          spellCheck={false}
          placeholder="assay_…"
          required
          value={key}
          onChange={(event) => setKey(event.target.value)}
        />
        <button type="submit" className="button primary" disabled={isBusy}>
          Sign in
        </button>
        {error !== undefined && <ProblemNote error={error} />}
      </form>
      <p className="small muted">
        The first start of the service prints the admin key of the workspace <code>local</code>. Create more keys with{' '}
        <code>assay keys create</code>; replace a lost key with <code>assay keys recover</code>.
      </p>
    </main>
  )
}
