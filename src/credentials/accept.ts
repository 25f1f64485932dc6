import type { Db } from '../platform/db/db.ts'
import { type FieldError, invalidRequest, Problem } from '../platform/problem.ts'
import { hintOf, secretErrors, trimmed } from './fields.ts'
import { isStorable, type Provider, providers } from './providers.ts'
import type { CredentialProvider, Kind } from './schema.ts'
import type { Secret } from './seal.ts'

/** Whose credentials a workspace can have. */
export type ProviderTools = {
  db: Db
  /** Providers that a workspace has added itself: its custom models. */
  customProviders?: ((db: Db, workspaceId: string) => Promise<Provider[]>) | undefined
}

type Name = { kind: Kind; provider: string }

export async function findProvider(tools: ProviderTools, workspaceId: string, { kind, provider }: Name) {
  const known = await allProviders(tools, workspaceId)
  return known.find((candidate) => candidate.kind === kind && candidate.provider === provider)
}

/** Those whose credentials can be stored. */
export async function listProviders(tools: ProviderTools, workspaceId: string): Promise<CredentialProvider[]> {
  const known = await allProviders(tools, workspaceId)
  return known.filter(isStorable).map(({ kind, provider, fields }) => ({
    kind,
    provider,
    fields: fields.map(({ name, required, secret }) => ({ name, required, secret })),
  }))
}

/** The secret as it will be kept, and what may be shown of it; or a 422 that names every field that is wrong. */
export async function acceptSecret(
  tools: ProviderTools,
  workspaceId: string,
  name: Name,
  sent: Secret,
): Promise<{ secret: Secret; hint: string }> {
  const provider = await findProvider(tools, workspaceId, name)
  if (!provider || !isStorable(provider)) throw invalid([unknownProvider(name, provider)])

  const secret = trimmed(sent)
  const errors = secretErrors(provider.fields, secret)
  if (errors.length > 0) throw invalid(errors)
  return { secret, hint: hintOf(provider.fields, secret) }
}

const allProviders = async ({ db, customProviders }: ProviderTools, workspaceId: string): Promise<Provider[]> => [
  ...providers,
  ...((await customProviders?.(db, workspaceId)) ?? []),
]

function unknownProvider({ kind }: Name, provider: Provider | undefined): FieldError {
  const message = provider ? 'is built in and takes no credential' : `is not a provider of kind ${kind}`
  return { pointer: '/provider', code: 'unknown_provider', message }
}

function invalid(errors: FieldError[]): Problem {
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''
  return new Problem(invalidRequest, `${errors[0]?.pointer.slice(0, 200)}: ${errors[0]?.message}${more}`, { errors })
}
