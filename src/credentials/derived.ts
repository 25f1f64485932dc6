import { derivedId } from '../platform/ids.ts'
import { LOCAL } from '../workspaces/workspaces.ts'
import type { CredentialVariables } from './checks.ts'
import { buildHint } from './fields.ts'
import { findSecret, type ProviderDefinition, providers } from './providers.ts'
import type { Credential } from './schema.ts'
import type { Secret } from './seal.ts'

export type CredentialOwner = { id: string; login: string; createdAt: Date }

/** A credential of the environment or a built-in one, with its secret. */
export type DerivedCredential = { credential: Credential; secret: Secret }

/** Lists the credentials that a workspace has without storing any: built-in ones and those of the server's environment. */
export function listDerivedCredentials(
  owner: CredentialOwner,
  environment: CredentialVariables,
  storage: boolean,
): DerivedCredential[] {
  // The server's keys belong to its operator. Other workspaces get them only when they cannot store their own.
  const seesEnvironment = !storage || owner.login.toLowerCase() === LOCAL
  return providers.flatMap((provider) => {
    const secret = seesEnvironment ? findSecret(environment, provider) : undefined
    return [
      ...(provider.builtin
        ? [derived(owner, provider, { source: 'builtin', name: provider.builtin, secret: {} })]
        : []),
      ...(secret ? [derived(owner, provider, { source: 'environment', name: toVariableName(provider), secret })] : []),
    ]
  })
}

type DerivedSource = { source: 'builtin' | 'environment'; name: string; secret: Secret }

const derived = (
  owner: CredentialOwner,
  { kind, provider, fields }: ProviderDefinition,
  { source, name, secret }: DerivedSource,
): DerivedCredential => ({
  secret,
  credential: {
    id: derivedId(owner.id, source, kind, provider),
    kind,
    provider,
    name,
    source,
    hint: buildHint(fields, secret),
    createdAt: owner.createdAt.toISOString(),
    lastUsedAt: null,
  },
})

const toVariableName = ({ environment, provider }: ProviderDefinition): string =>
  Object.values(environment ?? {})[0] ?? provider
