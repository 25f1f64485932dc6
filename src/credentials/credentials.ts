import { type Db, sqlStateOf, transact } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { newId } from '../platform/ids.ts'
import { type FieldError, invalidRequest, notFound, Problem } from '../platform/problem.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import type { CheckDeps } from './checks.ts'
import { buildHint, listSecretErrors, trimSecret } from './fields.ts'
import type { Keyring } from './master-key.ts'
import {
  type CredentialOwner,
  type DerivedCredential,
  isStorable,
  listDerivedCredentials,
  type ProviderDefinition,
  providers,
} from './providers.ts'
import {
  type Credential,
  type CredentialKind,
  type CredentialProvider,
  credentialInUse,
  credentialReadOnly,
  credentialStorageOff,
  tooManyCredentials,
} from './schema.ts'
import type { Secret } from './seal.ts'
import * as rows from './sql.ts'

export type CredentialDeps = ProviderDeps &
  CheckDeps & {
    /** Undefined when credential storage is off. */
    keyring: Keyring | undefined
  }

type CreateCredentialInput = { kind: CredentialKind; provider: string; name: string; secret: Secret }
type CredentialChange = { name?: string | undefined; secret?: Secret | undefined }

const CREDENTIALS_MAX = 500

/** Stores a credential, sealed with the active master key. */
export async function createCredential(
  deps: CredentialDeps,
  by: AuditActor,
  input: CreateCredentialInput,
): Promise<Credential> {
  const { keyring } = deps
  const { kind, provider, name } = input
  const { secret, hint } = await acceptSecret(deps, by.workspaceId, input, input.secret)
  if (!keyring)
    throw new Problem(
      credentialStorageOff,
      'Credential storage is off: this server only uses credentials of its environment.',
    )

  return transact(deps.db, async (tx) => {
    const seal = await keyring.sealer(tx)
    await rows.lockCredentials(tx, by.workspaceId)
    if ((await rows.countCredentials(tx, by.workspaceId)) >= CREDENTIALS_MAX)
      throw new Problem(tooManyCredentials, `A workspace has at most ${CREDENTIALS_MAX} credentials.`)
    const id = newId()
    const sealed = seal({ workspaceId: by.workspaceId, credentialId: id, version: 1, kind, provider }, secret)
    const newRow = { id, workspace_id: by.workspaceId, kind, provider, name, hint, version: 1 }
    const row = await rows.insertCredential(tx, newRow, sealed)
    await record(tx, { ...by, action: 'credential.created', subject: id, detail: toAuditDetail(row) })
    return toCredential(row)
  })
}

/** Lists credentials newest first. Derived ones are as old as the workspace and therefore come last. */
export async function listCredentials(deps: CredentialDeps, owner: CredentialOwner, page: Page) {
  const stored = deps.keyring ? await rows.listCredentialRows(deps.db, owner.id, page) : []
  const allCredentials = [...stored.map(toCredential), ...listDerived(deps, owner).map(({ credential }) => credential)]
  const { cursor } = page
  const onPage = allCredentials
    .filter((credential) => !cursor || toSortKey(credential) < `${cursor.at.toISOString()} ${cursor.id.toLowerCase()}`)
    .sort((a, b) => (toSortKey(a) < toSortKey(b) ? 1 : -1))
  const { items, nextCursor } = toPage(onPage, page.limit, ({ createdAt, id }) => ({ at: new Date(createdAt), id }))
  return { credentials: items, nextCursor }
}

/** Returns a text by which credentials sort in the same order as in the database: by time, then by id. */
const toSortKey = ({ createdAt, id }: Credential): string => `${createdAt} ${id}`

export async function findCredential(
  deps: CredentialDeps,
  workspaceId: string,
  id: string,
): Promise<Credential | undefined> {
  const row = deps.keyring && (await rows.findCredentialRow(deps.db, workspaceId, id))
  return row ? toCredential(row) : (await findDerived(deps, workspaceId, id))?.credential
}

/** Returns true if a client has stored the credential. */
export const isStoredCredential = async (db: Db, workspaceId: string, id: string): Promise<boolean> =>
  (await rows.findCredentialRow(db, workspaceId, id)) !== undefined

/** Returns true if any workspace has stored a credential of a provider. */
export const hasStoredCredential = async (db: Db, kind: CredentialKind, provider: string): Promise<boolean> =>
  (await rows.findProviderRow(db, kind, provider)) !== undefined

/** Finds the newest credential of a provider. Stored ones precede derived ones. */
export async function findNewestCredential(
  deps: CredentialDeps,
  workspaceId: string,
  { kind, provider }: { kind: CredentialKind; provider: string },
): Promise<Credential | undefined> {
  const row = deps.keyring && (await rows.findNewestCredentialRow(deps.db, workspaceId, kind, provider))
  if (row) return toCredential(row)
  const owner = await rows.findOwner(deps.db, workspaceId)
  const derived = owner ? listDerived(deps, owner) : []
  return derived.find(({ credential }) => credential.kind === kind && credential.provider === provider)?.credential
}

/** Finds a built-in credential, or one of the server's environment. */
export async function findDerived(
  deps: CredentialDeps,
  workspaceId: string,
  id: string,
): Promise<DerivedCredential | undefined> {
  const owner = await rows.findOwner(deps.db, workspaceId)
  return owner && listDerived(deps, owner).find(({ credential }) => credential.id === id.toLowerCase())
}

const listDerived = ({ environment, keyring }: CredentialDeps, owner: CredentialOwner): DerivedCredential[] =>
  listDerivedCredentials(owner, environment, keyring !== undefined)

export async function readCredential(deps: CredentialDeps, workspaceId: string, id: string): Promise<Credential> {
  const credential = await findCredential(deps, workspaceId, id)
  if (!credential) throw credentialNotFound(id)
  return credential
}

/** Updates a credential. A new secret replaces every field of the old one, so it also repairs a damaged secret. */
export async function updateCredential(
  deps: CredentialDeps,
  by: AuditActor,
  existing: Credential,
  change: CredentialChange,
): Promise<Credential> {
  const accepted = change.secret && (await acceptSecret(deps, by.workspaceId, existing, change.secret))
  const keyring = requireStored(deps, existing)
  const changed = Object.keys(change).sort().join(', ')
  if (changed === '') return existing

  const { id, kind, provider } = existing
  return transact(deps.db, async (tx) => {
    const seal = accepted && (await keyring.sealer(tx))
    const current = await rows.lockCredentialVersion(tx, by.workspaceId, id)
    if (!current) throw credentialNotFound(id)

    const version = current.version + 1
    const context = { workspaceId: by.workspaceId, credentialId: id, version, kind, provider }
    const secret = seal && { hint: accepted.hint, version, sealed: seal(context, accepted.secret) }
    const row = await rows.updateCredentialRow(tx, id, { name: change.name, secret })
    await record(tx, { ...by, action: 'credential.updated', subject: id, detail: { ...toAuditDetail(row), changed } })
    return toCredential(row)
  })
}

export async function deleteCredential(deps: CredentialDeps, by: AuditActor, credential: Credential): Promise<void> {
  requireStored(deps, credential)
  await transact(deps.db, async (tx) => {
    const { numDeletedRows } = await rows.deleteCredentialRow(tx, by.workspaceId, credential.id).catch(rethrowAsInUse)
    if (numDeletedRows === 0n) throw credentialNotFound(credential.id)
    await record(tx, { ...by, action: 'credential.deleted', subject: credential.id, detail: toAuditDetail(credential) })
  })
}

const FOREIGN_KEY_VIOLATION = '23503'

function rethrowAsInUse(error: unknown): never {
  if (sqlStateOf(error) !== FOREIGN_KEY_VIOLATION) throw error
  throw new Problem(credentialInUse, 'This credential is still in use. Replace its secret instead.')
}

function requireStored({ keyring }: CredentialDeps, { source, name }: Credential): Keyring {
  if (keyring && source === 'stored') return keyring
  const origin = source === 'builtin' ? 'is built in' : 'comes from the environment of the server'
  throw new Problem(credentialReadOnly, `The credential ${name} ${origin} and cannot be changed here.`)
}

const credentialNotFound = (id: string) => new Problem(notFound, `Credential ${id} not found.`)

const toAuditDetail = ({ kind, provider, name }: { kind: CredentialKind; provider: string; name: string }) => ({
  kind,
  provider,
  name,
})

type CredentialRow = Awaited<ReturnType<typeof rows.insertCredential>>

const toCredential = (row: CredentialRow): Credential => ({
  id: row.id,
  kind: row.kind,
  provider: row.provider,
  name: row.name,
  source: 'stored',
  hint: row.hint,
  createdAt: row.created_at.toISOString(),
  lastUsedAt: row.last_used_at?.toISOString() ?? null,
})

/** Dependencies for looking up the providers of a workspace. */
type ProviderDeps = {
  db: Db
  /** Lists the providers that a workspace has added: its custom models. */
  customProviders?: ((db: Db, workspaceId: string) => Promise<ProviderDefinition[]>) | undefined
}

type ProviderName = { kind: CredentialKind; provider: string }

export async function findProvider(deps: ProviderDeps, workspaceId: string, { kind, provider }: ProviderName) {
  const allProviders = await listAllProviders(deps, workspaceId)
  return allProviders.find((candidate) => candidate.kind === kind && candidate.provider === provider)
}

/** Lists the providers whose credentials can be stored. */
export async function listProviders(deps: ProviderDeps, workspaceId: string): Promise<CredentialProvider[]> {
  const allProviders = await listAllProviders(deps, workspaceId)
  return allProviders.filter(isStorable).map(({ kind, provider, fields }) => ({
    kind,
    provider,
    fields: fields.map(({ name, required, secret, multiline = false }) => ({ name, required, secret, multiline })),
  }))
}

/** Returns the secret as it will be stored and its hint. Throws a 422 that lists every invalid field. */
async function acceptSecret(
  deps: ProviderDeps,
  workspaceId: string,
  name: ProviderName,
  input: Secret,
): Promise<{ secret: Secret; hint: string }> {
  const provider = await findProvider(deps, workspaceId, name)
  if (!provider || !isStorable(provider)) throw toInvalidProblem([toProviderError(name, provider)])

  const secret = trimSecret(input)
  const errors = listSecretErrors(provider.fields, secret)
  if (errors.length > 0) throw toInvalidProblem(errors)
  return { secret, hint: buildHint(provider.fields, secret) }
}

const listAllProviders = async (
  { db, customProviders }: ProviderDeps,
  workspaceId: string,
): Promise<ProviderDefinition[]> => [...providers, ...((await customProviders?.(db, workspaceId)) ?? [])]

function toProviderError({ kind }: ProviderName, provider: ProviderDefinition | undefined): FieldError {
  const message = provider ? 'is built in and needs no credential' : `is not a provider of kind ${kind}`
  return { pointer: '/provider', code: 'unknown_provider', message }
}

function toInvalidProblem(errors: FieldError[]): Problem {
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''
  return new Problem(invalidRequest, `${errors[0]?.pointer.slice(0, 200)}: ${errors[0]?.message}${more}`, { errors })
}
