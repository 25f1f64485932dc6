import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import pg from 'pg'

// Baseline of reads: Node's HTTP server with the same SQL and pool, and nothing else.

const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  max: Number(process.env.ASSAY_DATABASE_CONNECTIONS),
})

const SQL = process.env.BENCH_SQL ?? ''

const server = createServer(async (request, response) => {
  const key = request.headers.authorization?.slice('Bearer '.length) ?? ''
  const { rows } = await pool.query(SQL, [createHash('sha256').update(key).digest()])
  const row = rows[0]
  const body = JSON.stringify({
    login: row.login,
    name: row.name,
    kind: row.kind,
    credentialStorage: true,
    createdAt: row.created_at,
  })
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body)
})

server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  console.log(`assay ready http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`)
})
