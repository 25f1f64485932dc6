import type { JsonObject } from '../harnesses/json.ts'
import type { Protocol } from '../harnesses/model-access.ts'
import { makeCall } from './call.ts'
import type { GatewayRequest, GatewayRuntime } from './call-context.ts'
import type { ClientResponse } from './client-response.ts'
import { isSecretOf } from './grants.ts'
import { listTokens } from './headers.ts'
import type { Grant, Refusal, Terms } from './ledger.ts'
import { refusalProblem } from './problems.ts'
import { wireProtocols } from './protocols.ts'
import type { WireOperation, WireProtocol } from './wire-protocol.ts'

/** Answers one request from the sandbox of a grant. */
export async function serveRequest(
  runtime: GatewayRuntime,
  grant: Grant,
  request: GatewayRequest,
  client: ClientResponse,
): Promise<void> {
  const { wire, operation } = findOperation(request, grant.terms.protocols)
  const refuse = (reason: Refusal, message: string) => refuseWith(runtime, grant, wire, client, { reason, message })
  if (operation?.kind === 'hello') return client.answer(200, {})
  if (!listTokens(request.headers, request.query).some((token) => isSecretOf(token, grant.tokenHash)))
    return refuse('token', 'Invalid key. Use the key of this trial.')
  if (!operation || !grant.terms.protocols.includes(wire.protocol))
    return refuse('path', `Not found: ${request.method} ${request.path.slice(0, 200)} is not available to this trial.`)
  if (operation.kind === 'upgrade') return client.answer(...upgradeRequired(wire))
  if (operation.kind === 'models') return client.answer(200, listModels(request.path, grant.terms))

  const slot = runtime.limiter.enter(grant.id)
  if (!slot) return refuse('busy', 'Too many concurrent calls.')
  try {
    await makeCall(runtime, { grant, wire, operation, request, client, slot, refuse })
  } finally {
    slot.release()
  }
}

/** Finds the protocol that knows the path, preferably one of the grant's. Unknown paths are answered in the first one. */
function findOperation(
  { method, path }: GatewayRequest,
  allowed: readonly Protocol[],
): { wire: WireProtocol; operation?: WireOperation } {
  const others = Object.values(wireProtocols).filter(({ protocol }) => !allowed.includes(protocol))
  const known = [...allowed.map((protocol) => wireProtocols[protocol]), ...others]
  for (const wire of known) {
    const operation = wire.parseOperation(method, path)
    if (operation) return { wire, operation }
  }
  return { wire: known[0] ?? wireProtocols['openai-chat'] }
}

/** Stores a refusal before it is answered, so that the ledger is complete when the program has ended. */
async function refuseWith(
  { ledger, counters }: GatewayRuntime,
  grant: Grant,
  wire: WireProtocol,
  client: ClientResponse,
  { reason, message }: { reason: Refusal; message: string },
): Promise<void> {
  counters.refused(reason)
  await ledger.refuse(grant.id, reason)
  const { status, code, headers } = refusalProblem(reason, message)
  client.answer(status, wire.formatError(status, code, message), headers)
}

const upgradeRequired = (wire: WireProtocol): [number, JsonObject, Record<string, string>] => [
  426,
  wire.formatError(426, 'upgrade_required', 'WebSockets are not supported. Send a POST request.'),
  { connection: 'close' },
]

/** Lists the one model of a grant in the format that the path belongs to. */
function listModels(path: string, { model, outputTokens, provider }: Terms): JsonObject {
  const google = { name: `models/${model}`, displayName: model, outputTokenLimit: outputTokens }
  const epoch = { created: 0, created_at: '1970-01-01T00:00:00Z' }
  const other = { id: model, type: 'model', object: 'model', display_name: model, owned_by: provider, ...epoch }
  const isOne = /\/models\/[^/]/.test(path)
  if (/^\/v1(alpha|beta)\//.test(path)) return isOne ? google : { models: [google] }
  return isOne ? other : { object: 'list', data: [other], has_more: false, first_id: model, last_id: model }
}
