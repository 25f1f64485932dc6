import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type Command, InvalidArgumentError } from 'commander'
import { handleInSequence } from '../src/platform/listen.ts'
import { parseUntrustedJson } from '../src/platform/untrusted-json.ts'
import { withExample, withGlobals } from './help.ts'
import { openService, type Service } from './service.ts'
import { print, type Shell } from './shell.ts'

type McpFlags = { port?: number }

/**
 * Adds `assay mcp`, which serves the Model Context Protocol, so that coding agents can use a running service. The SDK is
 * loaded when the command runs, because loading takes long.
 */
export function addMcpCommand(assay: Command, shell: Shell): void {
  withExample(
    withGlobals(assay.command('mcp'), '--url', '--org')
      .description('Let coding agents use the service: an MCP server on standard input and output, or over HTTP')
      .option(
        '--port <number>',
        'Serve streamable HTTP at /mcp of this port of 127.0.0.1; clients send their own key',
        parsePort,
      )
      .action((flags: McpFlags, command: Command) => serveMcp(shell, command, flags)),
    'assay mcp',
    'assay mcp --port 4100',
    'claude mcp add assay --env ASSAY_KEY=assay_… -- assay mcp',
  )
}

function parsePort(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) < 65_536) return Number(text)
  throw new InvalidArgumentError('It must be a port number.')
}

async function serveMcp(shell: Shell, command: Command, { port }: McpFlags): Promise<void> {
  if (port === undefined) await serveStdio(shell, command)
  else await serveHttp(shell, command, port)
}

/** Serves one client until it closes standard input. */
async function serveStdio(shell: Shell, command: Command): Promise<void> {
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js')
  const { buildMcpServer } = await import('./mcp/server.ts')
  const input = shell.input()
  const server = buildMcpServer({ shell, openService: createServiceOpener(shell, command), isLocal: true })
  const closed = new Promise<void>((resolve) => {
    input.once('end', resolve)
    input.once('close', resolve)
  })
  await server.connect(new StdioServerTransport(input, shell.output))
  await closed
  await server.close()
}

/** Opens the service at the first tool call, so that the server starts even if the service is not running yet. */
function createServiceOpener(shell: Shell, command: Command): () => Promise<Service> {
  let opened: Promise<Service> | undefined
  return () => {
    opened ??= openService(shell, command).catch((error: unknown) => {
      // The next call tries again.
      opened = undefined
      throw error
    })
    return opened
  }
}

/** Serves any number of clients. Each request carries the key of its client, so the server itself needs none. */
async function serveHttp(shell: Shell, command: Command, port: number): Promise<void> {
  const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js')
  const { buildMcpServer } = await import('./mcp/server.ts')
  const answerRequest = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const key = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '')?.[1]
    if (request.url !== '/mcp') return refuse(response, 404, 'Not found. The endpoint is /mcp.')
    if (request.method !== 'POST') return refuse(response, 405, 'Only POST is supported.')
    if (key === undefined) return refuse(response, 401, 'Send an API key of the service: Authorization: Bearer assay_…')
    const message = await readMessage(request)
    if ('status' in message) return refuse(response, message.status, message.reason)
    const clientShell: Shell = { ...shell, env: { ...shell.env, ASSAY_KEY: key } }
    const server = buildMcpServer({
      shell: clientShell,
      openService: createServiceOpener(clientShell, command),
      isLocal: false,
    })
    // A transport that has no session id serves exactly one request.
    const transport = new StreamableHTTPServerTransport({})
    response.once('close', () => void server.close())
    await server.connect(transport as Parameters<typeof server.connect>[0])
    await transport.handleRequest(request, response, message.body)
  }
  const handle = handleInSequence((request, response) => {
    answerRequest(request, response).catch(() => refuse(response, 500, 'The request could not be handled.'))
  })
  const listener = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, handle)
  await listenUntilSignal(shell, listener, port)
}

const REQUEST_TIMEOUT_MS = 30_000
/** Maximum size of a request. Arguments of tools are short: the longest are lists of ids. */
const MESSAGE_BYTES_MAX = 256 * 1024
const MESSAGE_VALUES_MAX = 5_000

/** The body of a request, or the status and the reason with which it is refused. */
type McpMessage = { body: unknown } | { status: number; reason: string }

/**
 * Reads the body of a request. Refuses bodies that take long to parse, because keys are checked only later, by the service:
 * every program that reaches the port can send a body.
 */
async function readMessage(request: IncomingMessage): Promise<McpMessage> {
  const tooLarge = { status: 413, reason: `The body is larger than ${MESSAGE_BYTES_MAX} bytes.` }
  if (Number(request.headers['content-length'] ?? 0) > MESSAGE_BYTES_MAX) return tooLarge
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request) {
    bytes += chunk.length
    if (bytes > MESSAGE_BYTES_MAX) return tooLarge
    chunks.push(chunk)
  }
  const body = parseUntrustedJson(Buffer.concat(chunks).toString(), { valuesMax: MESSAGE_VALUES_MAX })
  if (body !== undefined) return { body }
  return { status: 400, reason: 'The body is not JSON, or has too many or too deeply nested values.' }
}

/** Code of JSON-RPC for errors that a server defines itself. */
const SERVER_ERROR = -32_000

function refuse(response: ServerResponse, status: number, message: string): void {
  if (response.headersSent) {
    response.end()
    return
  }
  // An unread body would be taken for the next request.
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' })
  response.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: SERVER_ERROR, message } }))
}

async function listenUntilSignal(shell: Shell, listener: Server, port: number): Promise<void> {
  const closed = new Promise<void>((resolve, reject) => listener.once('close', resolve).once('error', reject))
  listener.listen(port, '127.0.0.1', () => {
    const address = listener.address()
    const actualPort = typeof address === 'object' && address !== null ? address.port : port
    print(shell, `assay ready http://127.0.0.1:${actualPort}/mcp`)
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      listener.close()
      listener.closeAllConnections()
    })
  await closed
}
