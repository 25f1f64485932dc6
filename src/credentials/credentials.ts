import { errorCode, transact } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { newId } from '../platform/ids.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type By, record } from '../workspaces/audit.ts'
import { acceptSecret, type ProviderTools } from './accept.ts'
import type { CheckTools } from './checks.ts'
import { type Derived, derivedCredentials, type Owner } from './derived.ts'
import type { Keyring } from './master-key.ts'
import { type Credential, credentialInUse, credentialReadOnly, credentialStorageOff, type Kind } from './schema.ts'
import type { Secret } from './seal.ts'
import * as rows from './sql.ts'

export type Tools = ProviderTools &
  CheckTools & {
    /** Absent where credential storage is off. */
    keyring: Keyring | undefined
  }

type Wish = { kind: Kind; provider: string; name: string; secret: Secret }
type Change = { name?: string | undefined; secret?: Secret | undefined }

export async function createCredential(tools: Tools, by: By, wish: Wish): Promise<Credential> {
  const { keyring } = tools
  const { kind, provider, name } = wish
  const { secret, hint } = await acceptSecret(tools, by.workspaceId, wish, wish.secret)
  if (!keyring) throw new Problem(credentialStorageOff, 'This server takes credentials only from its own environment.')

  return transact(tools.db, async (tx) => {
    const seal = await keyring.sealer(tx)
    const id = newId()
    const sealed = seal({ workspaceId: by.workspaceId, credentialId: id, version: 1, kind, provider }, secret)
    const fresh = { id, workspace_id: by.workspaceId, kind, provider, name, hint, version: 1 }
    const row = await rows.insertCredential(tx, fresh, sealed)
    await record(tx, { ...by, action: 'credential.created', subject: id, detail: factsOf(row) })
    return credentialOf(row)
  })
}

/** Newest first. What follows from the workspace itself is as old as the workspace, and so comes last. */
export async function listCredentials(tools: Tools, owner: Owner, page: Page) {
  const stored = tools.keyring ? await rows.listCredentialRows(tools.db, owner.id, page) : []
  const all = [...stored.map(credentialOf), ...derivedOf(tools, owner).map(({ credential }) => credential)]
  const { cursor } = page
  const following = all
    .filter((credential) => !cursor || placeOf(credential) < `${cursor.at.toISOString()} ${cursor.id.toLowerCase()}`)
    .sort((a, b) => (placeOf(a) < placeOf(b) ? 1 : -1))
  const { items, nextCursor } = toPage(
    following,
    page.limit,
    (credential) => credential,
    ({ createdAt, id }) => ({ at: new Date(createdAt), id }),
  )
  return { credentials: items, nextCursor }
}

/** Sorts as the database does. */
const placeOf = ({ createdAt, id }: Credential): string => `${createdAt} ${id}`

export async function findCredential(tools: Tools, workspaceId: string, id: string): Promise<Credential | undefined> {
  const row = tools.keyring && (await rows.findCredentialRow(tools.db, workspaceId, id))
  return row ? credentialOf(row) : (await findDerived(tools, workspaceId, id))?.credential
}

/** For a provider. A stored one goes before those that follow from the workspace. */
export async function findNewestCredential(
  tools: Tools,
  workspaceId: string,
  { kind, provider }: { kind: Kind; provider: string },
): Promise<Credential | undefined> {
  const row = tools.keyring && (await rows.findNewestCredentialRow(tools.db, workspaceId, kind, provider))
  if (row) return credentialOf(row)
  const owner = await rows.findOwner(tools.db, workspaceId)
  const derived = owner ? derivedOf(tools, owner) : []
  return derived.find(({ credential }) => credential.kind === kind && credential.provider === provider)?.credential
}

export async function findDerived(tools: Tools, workspaceId: string, id: string): Promise<Derived | undefined> {
  const owner = await rows.findOwner(tools.db, workspaceId)
  return owner && derivedOf(tools, owner).find(({ credential }) => credential.id === id.toLowerCase())
}

const derivedOf = ({ environment, keyring }: Tools, owner: Owner): Derived[] =>
  derivedCredentials(owner, environment, keyring !== undefined)

export async function readCredential(tools: Tools, workspaceId: string, id: string): Promise<Credential> {
  const credential = await findCredential(tools, workspaceId, id)
  if (!credential) throw missing(id)
  return credential
}

/** A new secret replaces every field of the old one and needs nothing of it, so it also mends one that was damaged. */
export async function updateCredential(tools: Tools, by: By, before: Credential, wish: Change): Promise<Credential> {
  const accepted = wish.secret && (await acceptSecret(tools, by.workspaceId, before, wish.secret))
  const keyring = requireStored(tools, before)
  const changed = Object.keys(wish).sort().join(', ')
  if (changed === '') return before

  const { id, kind, provider } = before
  return transact(tools.db, async (tx) => {
    const seal = accepted && (await keyring.sealer(tx))
    const current = await rows.lockCredentialVersion(tx, by.workspaceId, id)
    if (!current) throw missing(id)

    const version = current.version + 1
    const place = { workspaceId: by.workspaceId, credentialId: id, version, kind, provider }
    const secret = seal && { hint: accepted.hint, version, sealed: seal(place, accepted.secret) }
    const row = await rows.updateCredentialRow(tx, id, { name: wish.name, secret })
    await record(tx, { ...by, action: 'credential.updated', subject: id, detail: { ...factsOf(row), changed } })
    return credentialOf(row)
  })
}

export async function deleteCredential(tools: Tools, by: By, credential: Credential): Promise<void> {
  requireStored(tools, credential)
  await transact(tools.db, async (tx) => {
    const { numDeletedRows } = await rows.deleteCredentialRow(tx, by.workspaceId, credential.id).catch(refuseUsed)
    if (numDeletedRows === 0n) throw missing(credential.id)
    await record(tx, { ...by, action: 'credential.deleted', subject: credential.id, detail: factsOf(credential) })
  })
}

const FOREIGN_KEY_VIOLATION = '23503'

function refuseUsed(error: unknown): never {
  if (errorCode(error) !== FOREIGN_KEY_VIOLATION) throw error
  throw new Problem(credentialInUse, 'Something still refers to this credential.')
}

function requireStored({ keyring }: Tools, { source, name }: Credential): Keyring {
  if (keyring && source === 'stored') return keyring
  const where = source === 'builtin' ? 'is built in' : 'comes from the environment of the server'
  throw new Problem(credentialReadOnly, `The credential ${name} ${where} and cannot be changed here.`)
}

const missing = (id: string) => new Problem(notFound, `There is no credential ${id}.`)

const factsOf = ({ kind, provider, name }: { kind: Kind; provider: string; name: string }) => ({ kind, provider, name })

type Row = Awaited<ReturnType<typeof rows.insertCredential>>

const credentialOf = (row: Row): Credential => ({
  id: row.id,
  kind: row.kind,
  provider: row.provider,
  name: row.name,
  source: 'stored',
  hint: row.hint,
  createdAt: row.created_at.toISOString(),
  lastUsedAt: row.last_used_at?.toISOString() ?? null,
})
