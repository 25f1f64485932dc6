import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

// Baseline of public reads: Node's HTTP server sending the same bytes with the same headers.

const body = readFileSync(process.env.BENCH_BODY ?? '')
const etag = process.env.BENCH_ETAG ?? ''
const headers = { 'content-type': 'application/json', 'cache-control': 'public, no-cache', etag }

const server = createServer((request, response) => {
  if (request.headers['if-none-match'] === etag) response.writeHead(304, headers).end()
  else response.writeHead(200, { ...headers, 'content-length': body.byteLength }).end(body)
})

server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  console.log(`assay ready http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`)
})
