import { QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createContext, type ReactNode, useCallback, useContext, useEffect, useMemo, useState } from 'react'
import { call } from '../../../src/platform/http/client.ts'
import type { Permission, Session } from '../../../src/workspaces/schema.ts'
import { ANONYMOUS, createApi, isRetryable, isSignedOut } from '../api/api.ts'
import { ApiContext, useApi } from '../api/use-api.ts'
import { ProblemNote } from '../components/problem-note.tsx'
import { deleteSession, readSession } from '../endpoints.gen.ts'
import { SignInPage } from './sign-in-page.tsx'

/** `end` shows the sign-in page. */
type SessionValue = { session: Session; end: () => void }

const SessionContext = createContext<SessionValue | undefined>(undefined)

function useSessionValue(): SessionValue {
  const value = useContext(SessionContext)
  if (!value) throw new Error('useSession needs a signed-in session around it.')
  return value
}

export const useSession = (): Session => useSessionValue().session

const PERMISSION_RANKS: Record<Permission, number> = { read: 0, write: 1, admin: 2 }

/** Returns true if the key of this session has a permission. Controls that need another permission are not shown. */
export const useHasPermission = (needed: Permission): boolean =>
  PERMISSION_RANKS[useSession().permission] >= PERMISSION_RANKS[needed]

/** Returns a function that ends the session at the service and shows the sign-in page. */
export function useSignOut(): () => Promise<void> {
  const api = useApi()
  const { end } = useSessionValue()
  return async () => {
    await api.call(deleteSession)
    end()
  }
}

type SessionState =
  | { kind: 'loading' }
  | { kind: 'signed_out' }
  | { kind: 'signed_in'; session: Session }
  | { kind: 'failed'; error: unknown }

/** Shows its children to a signed-in browser, and the sign-in page to others. The address stays the same. */
export function SessionGate({ children }: { children: ReactNode }) {
  const [state, setState] = useState<SessionState>({ kind: 'loading' })
  const load = useCallback(() => {
    setState({ kind: 'loading' })
    call(ANONYMOUS, readSession).then(
      ({ body }) => setState({ kind: 'signed_in', session: body }),
      (error: unknown) => setState(isSignedOut(error) ? { kind: 'signed_out' } : { kind: 'failed', error }),
    )
  }, [])
  useEffect(load, [load])

  if (state.kind === 'loading') return null
  if (state.kind === 'signed_out')
    return <SignInPage onSignedIn={(session) => setState({ kind: 'signed_in', session })} />
  if (state.kind === 'failed')
    return (
      <main className="sign-in">
        <ProblemNote error={state.error} onRetry={load} />
      </main>
    )
  return (
    <SignedIn session={state.session} onEnd={() => setState({ kind: 'signed_out' })}>
      {children}
    </SignedIn>
  )
}

const RETRIES_MAX = 3
/** A cached result that is older is read again when a component needs it. */
const STALE_MS = 5000

/** Provides session, client and query cache. Nothing cached outlives the session. */
function SignedIn({ session, onEnd, children }: { session: Session; onEnd: () => void; children: ReactNode }) {
  const [queries] = useState(() => {
    const endIfSignedOut = (error: unknown) => {
      if (isSignedOut(error)) onEnd()
    }
    return new QueryClient({
      queryCache: new QueryCache({ onError: endIfSignedOut }),
      defaultOptions: {
        queries: { staleTime: STALE_MS, retry: (retries, error) => isRetryable(error) && retries < RETRIES_MAX },
        mutations: { onError: endIfSignedOut },
      },
    })
  })
  const api = useMemo(() => createApi(session), [session])
  const value = useMemo(() => ({ session, end: onEnd }), [session, onEnd])
  return (
    <SessionContext value={value}>
      <ApiContext value={api}>
        <QueryClientProvider client={queries}>{children}</QueryClientProvider>
      </ApiContext>
    </SessionContext>
  )
}
