import type { Db } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { reply } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { toAuditActor } from '../workspaces/audit.ts'
import {
  type CredentialDeps,
  createCredential,
  deleteCredential,
  listCredentials,
  listProviders,
  readCredential,
  updateCredential,
} from './credentials.ts'
import * as schema from './schema.ts'
import { checkCredential } from './secrets.ts'

export function credentialRoutes(deps: CredentialDeps): Route[] {
  const withDb = (db: Db): CredentialDeps => ({ ...deps, db })
  const find = ({ db, caller, params }: { db: Db; caller: KeyCaller; params: { credentialId: string } }) =>
    readCredential(withDb(db), caller.workspace.id, params.credentialId)

  return [
    route(schema.createCredential, async ({ db, caller, body, requestId }) =>
      reply(201, await createCredential(withDb(db), toAuditActor(caller, requestId), body)),
    ),
    route(schema.listCredentials, async ({ db, caller, query }) =>
      reply(200, await listCredentials(withDb(db), caller.workspace, query)),
    ),
    route(schema.updateCredential, find, async ({ db, caller, body, requestId }, credential) =>
      reply(200, await updateCredential(withDb(db), toAuditActor(caller, requestId), credential, body)),
    ),
    route(schema.deleteCredential, find, async ({ db, caller, requestId }, credential) => {
      await deleteCredential(withDb(db), toAuditActor(caller, requestId), credential)
      return reply(204)
    }),
    route(schema.checkCredential, find, async ({ db, caller }, credential) =>
      reply(200, await checkCredential(withDb(db), caller.workspace.id, credential)),
    ),
    route(schema.listCredentialProviders, async ({ db, caller }) =>
      reply(200, { providers: await listProviders(withDb(db), caller.workspace.id) }),
    ),
  ]
}
