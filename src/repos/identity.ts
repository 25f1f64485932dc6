import { type Tools as CredentialTools, findCredential } from '../credentials/credentials.ts'
import { openNewestSecret, openSecret } from '../credentials/secrets.ts'
import { invalidRequest, Problem } from '../platform/problem.ts'
import { type CodeHost, CodeHostUnavailable, type HostAccess, type HostedRepository } from './code-host.ts'
import { gitUrlFault } from './git-url.ts'
import { GITHUB } from './github-request.ts'
import { codeHostAccessRefused, codeHostUnavailable, type RepositoryWish, repositoryNotFound } from './schema.ts'
import type { NewRepository, Place } from './sql.ts'

export type IdentityTools = CredentialTools & {
  codeHost: CodeHost
  /** Folders of this machine whose repositories may be connected. */
  gitAllow: readonly string[]
}

/** What a repository is. Without an id: the one that it has, or the next of our own. */
export type Identity = Omit<NewRepository, 'id' | 'workspace_id'> & { id: number | undefined }

export async function identityOf(tools: IdentityTools, place: Place, wish: RepositoryWish): Promise<Identity> {
  const { source, credentialId, visibility } = wish
  if (source.kind === 'github') {
    if (visibility !== undefined)
      throw refusedField('/visibility', 'The code host says whether a repository is public.')
    return hostedIdentity(tools, place, credentialId)
  }
  const fault = await gitUrlFault(source.url, tools.gitAllow)
  if (fault !== undefined) throw refusedField('/source/url', fault)
  return {
    ...{ id: undefined, owner: place.owner, name: place.name },
    ...{ source_kind: 'git', host: '', url: source.url, visibility: visibility ?? 'private' },
    ...(await credentialColumns(tools, place.workspaceId, credentialId)),
  }
}

/** As the code host knows it, in the casing of the code host. */
export async function hostedIdentity(
  tools: IdentityTools,
  place: Place,
  credentialId: string | undefined,
): Promise<Identity> {
  const columns = await credentialColumns(tools, place.workspaceId, credentialId)
  const { found, host } = await findHosted(tools, place, credentialId)
  if (!found) throw new Problem(repositoryNotFound, `${host} has no ${place.owner}/${place.name} that we may see.`)
  return { ...found, source_kind: 'github', host, url: null, ...columns }
}

/** Without `found` there is none of that name, or none that we may see. */
export async function findHosted(
  tools: IdentityTools,
  place: Place,
  credentialId: string | undefined,
): Promise<{ found: HostedRepository | undefined; host: string }> {
  const access = await accessOf(tools, place.workspaceId, credentialId)
  const lookup = await tools.codeHost.findRepository(place, access).catch(asProblem)
  if (lookup.kind === 'refused') throw new Problem(codeHostAccessRefused, lookup.detail)
  const found = lookup.kind === 'found' ? lookup.repository : undefined
  const wanted = `${place.owner}/${place.name}`
  if (found && `${found.owner}/${found.name}`.toLowerCase() !== wanted.toLowerCase())
    throw new Problem(repositoryNotFound, `${wanted} is called ${found.owner}/${found.name} now.`)
  return { found, host: access.host }
}

async function credentialColumns(tools: IdentityTools, workspaceId: string, id: string | undefined) {
  if (id === undefined) return { credential_id: null, stored_credential_id: null }
  const credential = await findCredential(tools, workspaceId, id.toLowerCase())
  if (credential?.kind !== 'code-host') throw refusedField('/credentialId', 'This is no code-host credential of ours.')
  return { credential_id: credential.id, stored_credential_id: credential.source === 'stored' ? credential.id : null }
}

const CODE_HOST = { kind: 'code-host', provider: 'github' } as const

/** Who asks the code host of a repository. A credential for another host is used only when it is named. */
export async function accessOf(tools: IdentityTools, workspaceId: string, id: string | undefined): Promise<HostAccess> {
  const opened =
    id === undefined
      ? await openNewestSecret(tools, workspaceId, CODE_HOST)
      : await openSecret(tools, workspaceId, id.toLowerCase())
  const host = opened?.secret.host?.toLowerCase() ?? GITHUB
  if (id === undefined && host !== GITHUB) return { host: GITHUB, token: undefined }
  return { host, token: opened?.secret.token }
}

function asProblem(error: unknown): never {
  if (!(error instanceof CodeHostUnavailable)) throw error
  const { retryAfterSeconds } = error
  const headers = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }
  throw new Problem(codeHostUnavailable, error.message, { headers })
}

export const refusedField = (pointer: string, message: string): Problem =>
  new Problem(invalidRequest, message, { errors: [{ pointer, code: 'invalid_value', message }] })
