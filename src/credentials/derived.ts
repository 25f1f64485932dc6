import { derivedId } from '../platform/ids.ts'
import { LOCAL } from '../workspaces/workspaces.ts'
import type { Environment } from './checks.ts'
import { hintOf } from './fields.ts'
import { type Provider, providers, secretIn } from './providers.ts'
import type { Credential } from './schema.ts'
import type { Secret } from './seal.ts'

export type Owner = { id: string; login: string; createdAt: Date }

/** A credential that nobody stored, with its secret. */
export type Derived = { credential: Credential; secret: Secret }

/** What a workspace has without storing anything: the built-in ones, and what the server's environment holds. */
export function derivedCredentials(owner: Owner, environment: Environment, storage: boolean): Derived[] {
  // The server's own keys are its operator's. Others get them only where they could not bring keys of their own.
  const seesEnvironment = !storage || owner.login.toLowerCase() === LOCAL
  return providers.flatMap((provider) => {
    const secret = seesEnvironment ? secretIn(environment, provider) : undefined
    return [
      ...(provider.builtin
        ? [derived(owner, provider, { source: 'builtin', name: provider.builtin, secret: {} })]
        : []),
      ...(secret ? [derived(owner, provider, { source: 'environment', name: variableOf(provider), secret })] : []),
    ]
  })
}

type Given = { source: 'builtin' | 'environment'; name: string; secret: Secret }

const derived = (owner: Owner, { kind, provider, fields }: Provider, { source, name, secret }: Given): Derived => ({
  secret,
  credential: {
    id: derivedId(owner.id, source, kind, provider),
    kind,
    provider,
    name,
    source,
    hint: hintOf(fields, secret),
    createdAt: owner.createdAt.toISOString(),
    lastUsedAt: null,
  },
})

const variableOf = ({ environment, provider }: Provider): string => Object.values(environment ?? {})[0] ?? provider
