import { type CredentialDeps, findDerived, findNewestCredential, findProvider } from './credentials.ts'
import { type Keyring, MasterKeyMissing } from './master-key.ts'
import type { Credential, CredentialCheck, CredentialKind } from './schema.ts'
import { SealBroken, type Secret } from './seal.ts'
import { findSealedRow, listSealedRows, markCredentialUsed } from './sql.ts'

export type OpenedSecret = { kind: CredentialKind; provider: string; secret: Secret }

/**
 * Returns the current secret. Call it whenever the secret is needed, so that a change applies to running work too.
 * Throws SealBroken if the row was tampered with.
 */
export async function openSecret(
  deps: CredentialDeps,
  workspaceId: string,
  id: string,
): Promise<OpenedSecret | undefined> {
  const opened = await findSecret(deps, workspaceId, id)
  if (opened?.isUseStale) await markCredentialUsed(deps.db, id)
  return opened && { kind: opened.kind, provider: opened.provider, secret: opened.secret }
}

/**
 * Returns the secret of the newest credential of a provider. Stored credentials precede those of the server's
 * environment.
 */
export async function openNewestSecret(
  deps: CredentialDeps,
  workspaceId: string,
  provider: { kind: CredentialKind; provider: string },
): Promise<OpenedSecret | undefined> {
  const credential = await findNewestCredential(deps, workspaceId, provider)
  return credential && openSecret(deps, workspaceId, credential.id)
}

/** Checks a credential with its provider. A rejected credential is a result, not an error. */
export async function checkCredential(
  deps: CredentialDeps,
  workspaceId: string,
  credential: Credential,
): Promise<CredentialCheck> {
  const started = performance.now()
  const verdict = await runCheck(deps, workspaceId, credential)
  return { ...verdict, latencyMs: Math.round(performance.now() - started) }
}

async function runCheck(deps: CredentialDeps, workspaceId: string, credential: Credential) {
  const provider = await findProvider(deps, workspaceId, credential)
  if (!provider) return { ok: false, detail: `The provider ${credential.provider} no longer exists.` }
  const opened = await findSecret(deps, workspaceId, credential.id).catch(ignoreBrokenSeal)
  if (!opened) return { ok: false, detail: 'The stored secret cannot be opened. Replace it with PATCH.' }
  return provider.check(deps, opened.secret)
}

function ignoreBrokenSeal(error: unknown): undefined {
  if (!(error instanceof SealBroken)) throw error
}

/** Returns how many secrets a workspace has stored, and the names of those that do not open. No provider is asked. */
export async function checkStoredSecrets(
  deps: CredentialDeps,
  workspaceId: string,
): Promise<{ stored: number; unreadable: string[] }> {
  const { keyring, db } = deps
  if (!keyring) return { stored: 0, unreadable: [] }
  const rows = await listSealedRows(db, workspaceId)
  const isReadable = await Promise.all(
    rows.map((row) => openRow(keyring, workspaceId, row).then(() => true, rethrowUnlessUnreadable)),
  )
  return { stored: rows.length, unreadable: rows.filter((_, index) => !isReadable[index]).map(({ name }) => name) }
}

function rethrowUnlessUnreadable(error: unknown): false {
  if (error instanceof SealBroken || error instanceof MasterKeyMissing) return false
  throw error
}

/** `isUseStale`: the recorded time of the last use is more than a minute old. */
type SecretWithUse = OpenedSecret & { isUseStale: boolean }

async function findSecret(deps: CredentialDeps, workspaceId: string, id: string): Promise<SecretWithUse | undefined> {
  const stored = deps.keyring && (await findStored(deps, deps.keyring, workspaceId, id))
  if (stored) return stored
  const derived = await findDerived(deps, workspaceId, id)
  if (!derived) return undefined
  const { kind, provider } = derived.credential
  return { kind, provider, secret: derived.secret, isUseStale: false }
}

const READS_MAX = 3

/** Finds and opens a stored secret. Reads it again if its master key was rotated meanwhile. */
async function findStored({ db }: CredentialDeps, keyring: Keyring, workspaceId: string, id: string) {
  for (let read = 1; ; read++) {
    const row = await findSealedRow(db, workspaceId, id)
    if (!row) return undefined
    try {
      return await openRow(keyring, workspaceId, row)
    } catch (error) {
      // A rotation may have ended after the row was read and removed the old key. Then the row now names the new one.
      if (!(error instanceof MasterKeyMissing) || read === READS_MAX) throw error
    }
  }
}

type SealedSecretRow = NonNullable<Awaited<ReturnType<typeof findSealedRow>>>

async function openRow(keyring: Keyring, workspaceId: string, row: SealedSecretRow): Promise<SecretWithUse> {
  const { kind, provider, version } = row
  const context = { workspaceId, credentialId: row.id, version, kind, provider }
  const sealed = { masterKeyId: row.master_key_id, wrappedKey: row.wrapped_key, ciphertext: row.ciphertext }
  return { kind, provider, secret: await keyring.open(context, sealed), isUseStale: row.use_is_stale }
}
