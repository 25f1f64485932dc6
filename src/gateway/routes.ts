import type { Blobs } from '../platform/blobs/blob.ts'
import { reply, replyFile } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { toAuditActor } from '../workspaces/audit.ts'
import { changeGatewaySettings, openCallBodies, readGatewaySettings } from './call-bodies.ts'
import * as schema from './schema.ts'

export const gatewayRoutes = ({ blobs }: { blobs: Blobs }): Route[] => [
  route(schema.readGatewaySettings, async ({ db, caller }) =>
    reply(200, await readGatewaySettings(db, caller.workspace.id)),
  ),
  route(schema.changeGatewaySettings, async ({ db, caller, body, requestId }) =>
    reply(200, await changeGatewaySettings(db, toAuditActor(caller, requestId), body)),
  ),
  route(schema.readCallBodies, async ({ db, caller, params }) => {
    const { bytes, content } = await openCallBodies({ db, blobs }, caller.workspace.id, params.callId)
    return replyFile({ name: `${params.callId}.jsonl`, mediaType: 'application/octet-stream', bytes, content })
  }),
]
