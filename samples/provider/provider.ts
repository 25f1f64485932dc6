import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { parseObject } from '../../src/gateway/protocols/fields.ts'
import { answerOf, refusalOf } from './answer.ts'
import { type Booked, type Books, newBooks } from './books.ts'
import { control } from './control.ts'
import type { Conversation, Speech } from './conversation.ts'
import { anthropicMessages } from './protocols/anthropic-messages.ts'
import { gemini } from './protocols/gemini.ts'
import { openaiChat } from './protocols/openai-chat.ts'
import { openaiResponses } from './protocols/openai-responses.ts'
import { asideOf, bodyOf, keyOf } from './requests.ts'
import { type ProviderScript, type ScriptInput, turnOf } from './script.ts'
import { stream } from './stream.ts'
import { billedTokens } from './tokens.ts'

export type Provider = Awaited<ReturnType<typeof startProvider>>

/** Starts a scripted mock of model providers, which records every call. */
export async function startProvider(given: ScriptInput = {}, { port = 0, host = '127.0.0.1' } = {}) {
  const books = newBooks(given)
  const server = createServer((request, response) => {
    answer(books, request, response).catch(() => response.destroy())
  })
  // WebSockets are refused, so that programs fall back to HTTP.
  server.on('upgrade', (_request, socket) => {
    socket.end('HTTP/1.1 426 Upgrade Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
  })
  await once(server.listen(port, host), 'listening')
  const address = server.address()
  const { calls, whenCalls, addFault, setScript, forget } = books
  return {
    calls,
    whenCalls,
    addFault,
    setScript,
    forget,
    url: `http://${host}:${typeof address === 'object' ? address?.port : port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const ROUTES: [RegExp, Speech][] = [
  [/\/messages$/, anthropicMessages],
  [/\/chat\/completions$/, openaiChat],
  [/\/responses(\/compact)?$/, openaiResponses],
  [/\/models\/[^/:]+:(generateContent|streamGenerateContent)$/, gemini],
]

async function answer(books: Books, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://provider')
  const bytes = await bodyOf(request)
  const body = parseObject(bytes.toString()) ?? {}
  if (pathname.startsWith('/__control/')) return send(response, ...control(books, request.method, pathname, body))

  const speech = ROUTES.find(([path]) => request.method === 'POST' && path.test(pathname))?.[1]
  if (!speech) return send(response, ...asideOf(books.script(), request.method, pathname))
  const conversation = speech.read(pathname, body)
  await speak(books, { speech, conversation, key: keyOf(request, searchParams), size: bytes.length }, response)
}

type ReceivedCall = { speech: Speech; conversation: Conversation; key: string | null; size: number }

async function speak(books: Books, asked: ReceivedCall, response: ServerResponse): Promise<void> {
  const { speech, conversation, key, size } = asked
  const script = books.script()
  const fault = { ...turnOf(script, conversation).trouble, ...books.takeTrouble() }
  const call = bookedOf(script, asked)
  const id = String(books.book(call)).padStart(24, '0')

  const refusal = refusalOf(script, fault, conversation, key)
  if (refusal) {
    call.status = refusal.status
    return send(response, refusal.status, speech.problem(refusal.status, refusal.message), refusal.headers)
  }
  if (fault.hang === 'before') return

  const said = answerOf(script, fault, conversation, { speech, id, size })
  call.usage = said.usage
  if (!conversation.isStream) {
    call.isUsageSaid = true
    return send(response, 200, speech.whole(said))
  }
  const { isWhole, sent } = await stream(response, speech.events(said), fault)
  if (!isWhole) call.usage = billedTokens(speech, said, sent)
  call.isUsageSaid = isWhole && said.wantsUsage && fault.malformed !== 'after'
}

const bookedOf = (script: ProviderScript, { speech, conversation }: ReceivedCall): Booked => ({
  protocol: speech.protocol,
  model: conversation.model,
  served: script.served[conversation.model] ?? conversation.model,
  level: conversation.level,
  isStream: conversation.isStream,
  results: conversation.results,
  tools: conversation.tools.map(({ name }) => name),
  status: 200,
  usage: null,
  isUsageSaid: false,
})

function send(response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}
