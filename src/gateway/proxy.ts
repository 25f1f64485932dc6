import type { Protocol } from '../harnesses/model-access.ts'
import type { GatewayRequest, ProxyTools } from './asking.ts'
import { makeCall } from './call.ts'
import type { Client } from './client.ts'
import { tokensIn } from './headers.ts'
import type { Grant, Refusal, Terms } from './ledger.ts'
import { refusalAnswer } from './problems.ts'
import { wires } from './protocols.ts'
import { isSecretOf } from './secret.ts'
import type { JsonObject, Operation, Wire } from './wire.ts'

/** Answers one request of the sandbox that a grant was opened for. */
export async function serve(tools: ProxyTools, grant: Grant, request: GatewayRequest, client: Client): Promise<void> {
  const { wire, operation } = routed(request, grant.terms.protocols)
  const refuse = (reason: Refusal, message: string) => refuseWith(tools, grant, wire, client, { reason, message })
  if (operation?.kind === 'hello') return client.answer(200, {})
  if (!tokensIn(request.headers, request.query).some((token) => isSecretOf(token, grant.tokenHash))) {
    return refuse('token', 'The key is not the one of this trial.')
  }
  if (!operation || !grant.terms.protocols.includes(wire.protocol)) {
    return refuse('path', `Nothing is at ${request.method} ${request.path.slice(0, 200)} for this trial.`)
  }
  if (operation.kind === 'upgrade') return client.answer(...upgradeRequired(wire))
  if (operation.kind === 'models') return client.answer(200, modelsAnswer(request.path, grant.terms))

  const room = tools.rooms.enter(grant.id)
  if (!room) return refuse('busy', 'Too many calls at once.')
  try {
    await makeCall(tools, { grant, wire, operation, request, client, room, refuse })
  } finally {
    room.leave()
  }
}

/** The protocol that knows the path, one of the grant's if any does. An unknown path is answered like the first of them. */
function routed({ method, path }: GatewayRequest, allowed: readonly Protocol[]): { wire: Wire; operation?: Operation } {
  const others = Object.values(wires).filter(({ protocol }) => !allowed.includes(protocol))
  const known = [...allowed.map((protocol) => wires[protocol]), ...others]
  for (const wire of known) {
    const operation = wire.operation(method, path)
    if (operation) return { wire, operation }
  }
  return { wire: known[0] ?? wires['openai-chat'] }
}

/** Written down before it is said, so that whoever reads the ledger after the program has ended sees it. */
async function refuseWith(
  { ledger, counters }: ProxyTools,
  grant: Grant,
  wire: Wire,
  client: Client,
  { reason, message }: { reason: Refusal; message: string },
): Promise<void> {
  counters.refused(reason)
  await ledger.refuse(grant.id, reason)
  const { status, code, headers } = refusalAnswer(reason, message)
  client.answer(status, wire.problem(status, code, message), headers)
}

const upgradeRequired = (wire: Wire): [number, JsonObject, Record<string, string>] => [
  426,
  wire.problem(426, 'upgrade_required', 'There are no web sockets here. Send a POST.'),
  { connection: 'close' },
]

/** There is one model. The list has it as the providers write it. */
function modelsAnswer(path: string, { model, outputTokens, provider }: Terms): JsonObject {
  const google = { name: `models/${model}`, displayName: model, outputTokenLimit: outputTokens }
  const epoch = { created: 0, created_at: '1970-01-01T00:00:00Z' }
  const other = { id: model, type: 'model', object: 'model', display_name: model, owned_by: provider, ...epoch }
  const isOne = /\/models\/[^/]/.test(path)
  if (/^\/v1(alpha|beta)\//.test(path)) return isOne ? google : { models: [google] }
  return isOne ? other : { object: 'list', data: [other], has_more: false, first_id: model, last_id: model }
}
