import type { Db } from '../platform/db/db.ts'
import { type FieldError, invalidRequest, Problem } from '../platform/problem.ts'
import { buildHint, listSecretErrors, trimSecret } from './fields.ts'
import { isStorable, type ProviderDefinition, providers } from './providers.ts'
import type { CredentialKind, CredentialProvider } from './schema.ts'
import type { Secret } from './seal.ts'

/** Dependencies for looking up the providers of a workspace. */
export type ProviderDeps = {
  db: Db
  /** Lists the providers that a workspace has added: its custom models. */
  customProviders?: ((db: Db, workspaceId: string) => Promise<ProviderDefinition[]>) | undefined
}

type ProviderName = { kind: CredentialKind; provider: string }

export async function findProvider(deps: ProviderDeps, workspaceId: string, { kind, provider }: ProviderName) {
  const known = await allProviders(deps, workspaceId)
  return known.find((candidate) => candidate.kind === kind && candidate.provider === provider)
}

/** Lists the providers whose credentials can be stored. */
export async function listProviders(deps: ProviderDeps, workspaceId: string): Promise<CredentialProvider[]> {
  const known = await allProviders(deps, workspaceId)
  return known.filter(isStorable).map(({ kind, provider, fields }) => ({
    kind,
    provider,
    fields: fields.map(({ name, required, secret }) => ({ name, required, secret })),
  }))
}

/** Returns the secret as it will be stored and its hint. Throws a 422 that lists every invalid field. */
export async function acceptSecret(
  deps: ProviderDeps,
  workspaceId: string,
  name: ProviderName,
  sent: Secret,
): Promise<{ secret: Secret; hint: string }> {
  const provider = await findProvider(deps, workspaceId, name)
  if (!provider || !isStorable(provider)) throw invalid([unknownProvider(name, provider)])

  const secret = trimSecret(sent)
  const errors = listSecretErrors(provider.fields, secret)
  if (errors.length > 0) throw invalid(errors)
  return { secret, hint: buildHint(provider.fields, secret) }
}

const allProviders = async (
  { db, customProviders }: ProviderDeps,
  workspaceId: string,
): Promise<ProviderDefinition[]> => [...providers, ...((await customProviders?.(db, workspaceId)) ?? [])]

function unknownProvider({ kind }: ProviderName, provider: ProviderDefinition | undefined): FieldError {
  const message = provider ? 'is built in and needs no credential' : `is not a provider of kind ${kind}`
  return { pointer: '/provider', code: 'unknown_provider', message }
}

function invalid(errors: FieldError[]): Problem {
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''
  return new Problem(invalidRequest, `${errors[0]?.pointer.slice(0, 200)}: ${errors[0]?.message}${more}`, { errors })
}
