import { SESSION_COOKIE } from '../platform/http/admit.ts'
import { reply } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { listEvents, toActor, toAuditActor } from './audit.ts'
import { signIn, signOut, toSession } from './authenticate.ts'
import { createKey, listKeys, readKey, revokeKey } from './keys.ts'
import * as schema from './schema.ts'
import { createWorkspace, toWorkspace } from './workspaces.ts'

type WorkspaceRouteDeps = {
  credentialStorage: boolean
  /** Browsers send the cookie over https only. */
  secureCookies: boolean
  checkHealth: (workspaceId: string) => Promise<schema.HealthCheck[]>
  listWorkers: () => Promise<schema.WorkerProcess[]>
  readDisk: () => Promise<schema.DiskSpace>
}

export const workspaceRoutes = (deps: WorkspaceRouteDeps): Route[] => [
  route(schema.createWorkspace, async ({ db, body, caller, requestId }) => {
    const { row, key } = await createWorkspace(db, body, { actor: toActor(caller), requestId })
    return reply(201, { ...toWorkspace(row, deps.credentialStorage), key })
  }),
  route(schema.readWorkspace, async ({ caller }) => reply(200, toWorkspace(caller.workspace, deps.credentialStorage))),
  route(schema.readOwnKey, async ({ caller }) =>
    reply(200, {
      org: caller.workspace.login,
      permission: caller.permission,
      expiresAt: caller.expiresAt?.toISOString() ?? null,
    }),
  ),
  route(schema.createSession, async ({ db, body, requestId }) => {
    const { token, session } = await signIn(db, body.key, requestId)
    return reply(201, session, { 'set-cookie': buildSessionCookie(deps, token, session.expiresAt) })
  }),
  route(schema.readSession, async ({ caller }) => reply(200, toSession(caller))),
  route(schema.deleteSession, async ({ db, caller }) => {
    await signOut(db, caller)
    return reply(204, undefined, { 'set-cookie': buildSessionCookie(deps, '', new Date(0).toISOString()) })
  }),
  route(schema.createKey, async ({ db, caller, body, requestId }) =>
    reply(201, await createKey(db, toAuditActor(caller, requestId), body)),
  ),
  route(schema.listKeys, async ({ db, caller, query }) => reply(200, await listKeys(db, caller.workspace.id, query))),
  route(
    schema.deleteKey,
    ({ db, caller, params }) => readKey(db, caller.workspace.id, params.keyId),
    async ({ db, caller, requestId }, key) => {
      await revokeKey(db, toAuditActor(caller, requestId), key)
      return reply(204)
    },
  ),
  route(schema.listAudit, async ({ db, caller, query }) =>
    reply(200, await listEvents(db, caller.workspace.id, query)),
  ),
  route(schema.readDoctor, async ({ caller }) => {
    const checks = await deps.checkHealth(caller.workspace.id)
    return reply(200, { ok: checks.every((check) => check.ok), checks })
  }),
  route(schema.readOperations, async () =>
    reply(200, { workers: await deps.listWorkers(), disk: await deps.readDisk() }),
  ),
]

const buildSessionCookie = ({ secureCookies }: WorkspaceRouteDeps, value: string, expiresAt: string | null): string => {
  const expires = new Date(expiresAt ?? 0).toUTCString()
  return `${SESSION_COOKIE}=${value}; Path=/; HttpOnly; SameSite=Lax; Expires=${expires}${secureCookies ? '; Secure' : ''}`
}
