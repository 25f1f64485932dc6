import type { Access } from './endpoint.ts'

export type Permission = 'read' | 'write' | 'admin'

export type KeyCaller = {
  by: 'key'
  keyId: string
  permission: Permission
  expiresAt: Date | null
  workspace: { id: string; login: string; name: string; kind: 'org' | 'user'; createdAt: Date }
  /** Present when the key speaks through a browser's session. */
  session?: { csrfToken: string; hash: Buffer; expiresAt: Date }
}

export type Caller = KeyCaller | { by: 'operator' }

/** What a request shows to say who sends it. */
export type Presented = { bearer?: string; sessionToken?: string }

export type Authenticate = (presented: Presented) => Promise<Caller | undefined>

export type CallerOf<A extends Access> = A extends 'public'
  ? undefined
  : A extends 'operator'
    ? { by: 'operator' }
    : KeyCaller

const RANK: Record<Permission, number> = { read: 0, write: 1, admin: 2 }

export const permits = (held: Permission, needed: Permission): boolean => RANK[held] >= RANK[needed]
