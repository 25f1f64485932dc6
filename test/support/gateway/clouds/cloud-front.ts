import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { type Provider, startProvider } from '../../../../samples/provider/provider.ts'
import type { ScriptInput } from '../../../../samples/provider/script.ts'
import type { JsonObject } from '../../../../src/harnesses/json.ts'

/** A request that the cloud has received. `path` is as it was sent, with its escapes. */
export type CloudRequest = {
  method: string
  path: string
  query: URLSearchParams
  headers: IncomingMessage['headers']
  body: Buffer
}

/** `answered`: the answer of the cloud itself. `accepted`: the request that its model receives. */
export type CloudDecision =
  | { kind: 'answered'; status: number; body: JsonObject; headers?: Record<string, string> }
  | { kind: 'accepted'; path: string; body: JsonObject }

export type CloudFront = {
  decide(request: CloudRequest): CloudDecision
  /** Relays the answer of the model in the form of the cloud. */
  relay(answer: Response, response: ServerResponse, request: CloudRequest): Promise<void>
}

export type FakeCloud = Provider & { requests: CloudRequest[] }

/** Starts a fake cloud: `front` authenticates and translates, and a scripted mock provider answers and keeps the books. */
export async function startCloud(front: CloudFront, script: ScriptInput): Promise<FakeCloud> {
  await using undo = new AsyncDisposableStack()
  const provider = undo.use(await startProvider(script))
  const requests: CloudRequest[] = []
  const server = createServer((request, response) => {
    answer(front, provider.url, requests, request, response).catch(() => response.destroy())
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  undo.defer(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const address = server.address()
  const running = undo.move()
  return {
    ...provider,
    requests,
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

async function answer(
  front: CloudFront,
  providerUrl: string,
  requests: CloudRequest[],
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { method = '', url = '', headers } = incoming
  const [path = '', search = ''] = url.split('?')
  const request = { method, path, query: new URLSearchParams(search), headers, body: await buffer(incoming) }
  requests.push(request)
  const decision = front.decide(request)
  if (decision.kind === 'answered')
    return void response
      .writeHead(decision.status, { 'content-type': 'application/json', ...decision.headers })
      .end(JSON.stringify(decision.body))
  const body = JSON.stringify(decision.body)
  const answered = await fetch(`${providerUrl}${decision.path}`, { method: 'POST', body })
  await front.relay(answered, response, request)
}

/** Relays status, type and bytes unchanged. */
export async function relayUnchanged(answered: Response, response: ServerResponse): Promise<void> {
  response.writeHead(answered.status, { 'content-type': answered.headers.get('content-type') ?? '' })
  for await (const chunk of answered.body ?? []) response.write(chunk)
  response.end()
}
