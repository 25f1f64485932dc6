import type { Access } from './endpoint.ts'

export type KeyPermission = 'read' | 'write' | 'admin'

export type KeyCaller = {
  by: 'key'
  keyId: string
  permission: KeyPermission
  expiresAt: Date | null
  workspace: { id: string; login: string; name: string; kind: 'org' | 'user'; createdAt: Date }
  /** Set when the key is used through a browser session. */
  session?: { csrfToken: string; hash: Buffer; expiresAt: Date }
}

export type Caller = KeyCaller | { by: 'operator' }

/** Secrets of a request that identify its sender. */
export type PresentedSecrets = { bearer?: string; sessionToken?: string }

export type Authenticate = (presented: PresentedSecrets) => Promise<Caller | undefined>

export type CallerOf<A extends Access> = A extends 'public'
  ? undefined
  : A extends 'operator'
    ? { by: 'operator' }
    : KeyCaller

const RANK: Record<KeyPermission, number> = { read: 0, write: 1, admin: 2 }

export const permits = (held: KeyPermission, needed: KeyPermission): boolean => RANK[held] >= RANK[needed]

/** Returns the scope of a caller: the id of its workspace, or `operator`. */
export const toScope = (caller: Caller | undefined): string => (caller?.by === 'key' ? caller.workspace.id : 'operator')
