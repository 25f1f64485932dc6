import { type CredentialDeps, findCredential } from '../credentials/credentials.ts'
import { openNewestSecret, openSecret } from '../credentials/secrets.ts'
import type { SshKey } from '../platform/git/settings.ts'
import { invalidRequest, Problem } from '../platform/problem.ts'
import { type CodeHost, CodeHostUnavailable, GITHUB, type HostAccess, type HostedRepository } from './github.ts'
import { findGitUrlFault } from './mirror/source.ts'
import {
  type ConnectRepositoryInput,
  codeHostAccessRefused,
  codeHostUnavailable,
  repositoryNotFound,
} from './schema.ts'
import type { NewRepository, RepositoryRef } from './sql.ts'

export type IdentityDeps = CredentialDeps & {
  codeHost: CodeHost
  /** Folders on this machine whose repositories may be connected. */
  gitAllow: readonly string[]
}

/** Stored properties of a repository. `id` is undefined for plain git, which keeps its existing id or gets a new one. */
export type RepositoryIdentity = Omit<NewRepository, 'id' | 'workspace_id'> & { id: number | undefined }

/** Loads the properties of a repository from the request, and from its code host if it has one. */
export async function loadIdentity(
  deps: IdentityDeps,
  ref: RepositoryRef,
  input: ConnectRepositoryInput,
): Promise<RepositoryIdentity> {
  const { source, credentialId, visibility } = input
  if (source.kind === 'github') {
    if (visibility !== undefined)
      throw invalidField('/visibility', 'visibility can only be set for plain git; a code host reports it.')
    return loadHostedIdentity(deps, ref, credentialId)
  }
  const fault = await findGitUrlFault(source.url, deps.gitAllow)
  if (fault !== undefined) throw invalidField('/source/url', fault)
  return {
    id: undefined,
    owner: ref.owner,
    name: ref.name,
    source_kind: 'git',
    host: '',
    url: source.url,
    visibility: visibility ?? 'private',
    ...(await loadCredentialColumns(deps, ref.workspaceId, credentialId)),
  }
}

/** Loads the properties of a repository from its code host, in the host's casing. */
export async function loadHostedIdentity(
  deps: IdentityDeps,
  ref: RepositoryRef,
  credentialId: string | undefined,
): Promise<RepositoryIdentity> {
  const columns = await loadCredentialColumns(deps, ref.workspaceId, credentialId, ['github'])
  const { repository, host } = await findHostedRepository(deps, ref, credentialId)
  if (!repository)
    throw new Problem(
      repositoryNotFound,
      `${host} has no repository ${ref.owner}/${ref.name} that the credential has access to.`,
    )
  return { ...repository, source_kind: 'github', host, url: null, ...columns }
}

/** Looks up a repository at its code host. `repository` is undefined if it does not exist or is not accessible. */
export async function findHostedRepository(
  deps: IdentityDeps,
  ref: RepositoryRef,
  credentialId: string | undefined,
): Promise<{ repository: HostedRepository | undefined; host: string }> {
  const access = await openHostAccess(deps, ref.workspaceId, credentialId)
  const lookup = await deps.codeHost.findRepository(ref, access).catch(rethrowAsProblem)
  if (lookup.kind === 'refused') throw new Problem(codeHostAccessRefused, lookup.detail)
  const repository = lookup.kind === 'found' ? lookup.repository : undefined
  const requestedName = `${ref.owner}/${ref.name}`
  if (repository && `${repository.owner}/${repository.name}`.toLowerCase() !== requestedName.toLowerCase())
    throw new Problem(repositoryNotFound, `${requestedName} was renamed to ${repository.owner}/${repository.name}.`)
  return { repository, host: access.host }
}

async function loadCredentialColumns(
  deps: IdentityDeps,
  workspaceId: string,
  id: string | undefined,
  providers = ['github', 'ssh'],
) {
  if (id === undefined) return { credential_id: null, stored_credential_id: null }
  const credential = await findCredential(deps, workspaceId, id.toLowerCase())
  if (credential?.kind !== 'code-host' || !providers.includes(credential.provider))
    throw invalidField('/credentialId', `Not a code-host credential of this workspace for ${providers.join(' or ')}.`)
  return { credential_id: credential.id, stored_credential_id: credential.source === 'stored' ? credential.id : null }
}

const CODE_HOST = { kind: 'code-host', provider: 'github' } as const

/** Opens the credential for a code host. A credential for a host other than GitHub is used only if it is named. */
export async function openHostAccess(
  deps: IdentityDeps,
  workspaceId: string,
  id: string | undefined,
): Promise<HostAccess> {
  const opened =
    id === undefined
      ? await openNewestSecret(deps, workspaceId, CODE_HOST)
      : await openSecret(deps, workspaceId, id.toLowerCase())
  const host = opened?.secret.host?.toLowerCase() ?? GITHUB
  if (id === undefined && host !== GITHUB) return { host: GITHUB, token: undefined }
  return { host, token: opened?.secret.token }
}

/** Opens the key of an ssh credential. Returns undefined for other credentials. */
export async function openSshKey(deps: IdentityDeps, workspaceId: string, id: string): Promise<SshKey | undefined> {
  const { privateKey, knownHosts } = (await openSecret(deps, workspaceId, id.toLowerCase()))?.secret ?? {}
  return privateKey === undefined || knownHosts === undefined ? undefined : { privateKey, knownHosts }
}

function rethrowAsProblem(error: unknown): never {
  if (!(error instanceof CodeHostUnavailable)) throw error
  const { retryAfterSeconds } = error
  const headers = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }
  throw new Problem(codeHostUnavailable, error.message, { headers })
}

export const invalidField = (pointer: string, message: string): Problem =>
  new Problem(invalidRequest, message, { errors: [{ pointer, code: 'invalid_value', message }] })
