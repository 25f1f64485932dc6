import { existsSync, readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { rotateMasterKey } from '../src/credentials/rotate-master-key.ts'
import { assay, hasTerminal, launch, localServer, onTerminal, scratchFolder } from '../test/support/assay-command.ts'
import { testDatabase } from '../test/support/database.ts'
import { isLongRun } from '../test/support/parts.ts'

const folder = scratchFolder()
afterAll(folder.remove)

const urlIn = (text: string): string => /^assay ready (http:\/\/127\.0\.0\.1:\d+)$/m.exec(text)?.[1] ?? 'none'

test('the first start shows the admin key once, then the ready line; the second only the ready line', async () => {
  const data = join(folder.path, 'first')
  const first = launch(['serve', '--data', data, '--port', '0'])
  const url = urlIn(await first.ready)
  expect(first.out.text()).toBe(
    `The admin key of the workspace local, shown only once:\n  ${keyIn(first)}\nassay ready ${url}\n`,
  )
  const answer = await fetch(`${url}/api/key`, { headers: { authorization: `Bearer ${keyIn(first)}` } })
  expect(await answer.json()).toMatchObject({ org: 'local', permission: 'admin' })
  first.child.kill('SIGTERM')
  expect(await first.exited).toBe(0)
  expect(existsSync(join(data, 'postgres/data/postmaster.pid'))).toBe(false)

  const second = launch(['serve', '--data', data, '--port', '0'])
  await second.ready
  second.child.kill('SIGINT')
  expect(await second.exited).toBe(0)
  expect(second.out.text()).toMatch(/^assay ready http:\/\/127\.0\.0\.1:\d+\n$/)

  const lines = first.err.text().trim().split('\n')
  expect(lines.map((line) => JSON.parse(line).level)).toContain('info')
  expect(lines.at(-1)).toContain('"msg":"stopping"')
  expect(first.err.text()).not.toContain(keyIn(first))
})

const keyIn = ({ out }: ReturnType<typeof launch>): string => /assay_\w{38}/.exec(out.text())?.[0] ?? 'none'

test('the first signal lets open requests finish, and the exit code is 0', async () => {
  await using database = await testDatabase()
  const service = launch(['serve', '--data', join(folder.path, 'a'), '--port', '0'], { DATABASE_URL: database.url })
  const request = await openRequest(urlIn(await service.ready))
  service.child.kill('SIGTERM')
  await service.err.shows(/"msg":"stopping"/)
  request.write('{"key":"no key"}')
  const answer = await new Promise<string>((resolve) => request.once('data', (chunk) => resolve(chunk.toString())))
  expect(answer).toMatch(/^HTTP\/1\.1 401 /)
  request.destroy()
  expect(await service.exited).toBe(0)
})

test('a failed first start shows no key, and the next start shows it', async () => {
  await using database = await testDatabase()
  await using other = await localServer(() => {})
  const env = { DATABASE_URL: database.url }
  const failed = await assay(['serve', '--data', join(folder.path, 'c'), '--port', new URL(other.url).port], { env })
  expect(failed).toMatchObject({ code: 1, out: '' })
  const service = launch(['serve', '--data', join(folder.path, 'c'), '--port', '0'], env)
  expect(await service.ready).toMatch(/assay_\w{38}/)
  service.child.kill('SIGTERM')
  expect(await service.exited).toBe(0)
})

test('a second signal does not wait', async () => {
  await using database = await testDatabase()
  const service = launch(['serve', '--data', join(folder.path, 'b'), '--port', '0'], { DATABASE_URL: database.url })
  const request = await openRequest(urlIn(await service.ready))
  service.child.kill('SIGTERM')
  await service.err.shows(/"msg":"stopping"/)
  // What comes right after the first counts as its echo, so this goes on until it is taken for a second one.
  const again = setInterval(() => service.child.kill('SIGTERM'), 50)
  expect(await service.exited).toBe(1)
  clearInterval(again)
  request.destroy()
})

/** A request that the service has begun to read and that waits for the rest of its body. */
async function openRequest(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {}) // it may be cut off
  const head = [
    'POST /api/session HTTP/1.1',
    `Host: ${hostname}`,
    'Content-Type: application/json',
    'Content-Length: 16',
  ]
  socket.write(`${[...head, 'Expect: 100-continue'].join('\r\n')}\r\n\r\n`)
  await new Promise<void>((resolve) => socket.once('data', () => resolve()))
  return socket
}

test('api and work are the same program in two processes', async () => {
  await using database = await testDatabase()
  const env = { DATABASE_URL: database.url }
  const api = launch(['api', '--data', join(folder.path, 'c'), '--port', '0'], env)
  const work = launch(['work', '--data', join(folder.path, 'c')], env)
  const url = urlIn(await api.ready)
  expect(await work.ready).toMatch(/assay ready\n$/)
  expect((await fetch(`${url}/readyz`)).status).toBe(200)
  for (const program of [api, work]) program.child.kill('SIGTERM')
  expect([await api.exited, await work.exited]).toEqual([0, 0])
})

test('a worker with a port serves its health and, to the operator, its metrics', async () => {
  await using database = await testDatabase()
  const operatorKey = 'operator-key-for-this-test-only'
  const env = { DATABASE_URL: database.url, ASSAY_OPERATOR_KEY: operatorKey }
  const work = launch(['work', '--data', join(folder.path, 'w'), '--port', '0'], env)
  const url = urlIn(await work.ready)
  const get = (path: string, headers = {}) => fetch(`${url}${path}`, { headers })
  expect((await get('/healthz')).status).toBe(200)
  expect(await (await get('/readyz')).json()).toEqual({ ok: true })
  expect((await get('/metrics')).status).toBe(401)
  const metrics = await (await get('/metrics', { authorization: `Bearer ${operatorKey}` })).text()
  expect(metrics).toMatch(/^assay_jobs_running \d+$/m)
  expect(metrics).toMatch(/^assay_jobs_queued 0$/m)
  expect((await get('/api/orgs/local')).status).toBe(404)
  work.child.kill('SIGTERM')
  expect(await work.exited).toBe(0)
})

test('a gateway that still has the old master key is not ready', async () => {
  await using database = await testDatabase()
  const [old, next] = ['0123456789abcdef'.repeat(4), 'fedcba9876543210'.repeat(4)]
  const env = { DATABASE_URL: database.url, ASSAY_SECRET_KEY: old, ASSAY_GATEWAY_PORT: '0' }
  const gateway = launch(['gateway', '--data', join(folder.path, 'd')], env)
  const readiness = `${urlIn(await gateway.ready)}/readyz`
  expect((await fetch(readiness)).status).toBe(200)
  await rotateMasterKey({ db: database.db, dataFolder: folder.path, secretKey: `${next},${old}`, force: true })
  await expect.poll(async () => (await fetch(readiness)).status, { timeout: 20_000 }).toBe(503)
  gateway.child.kill('SIGTERM')
  expect(await gateway.exited).toBe(0)
})

test.each([
  [{ ASSAY_PORT: 'abc' }, 'error: ASSAY_PORT must be a whole number from 0 to 65535.\n'],
  [
    { ASSAY_PORT: '70000', ASSAY_OPERATOR_KEY: 'hunter2' },
    'error: ASSAY_PORT must be a whole number from 0 to 65535.\n  ASSAY_OPERATOR_KEY is too weak: 24 characters or more, as `assay keys generate` prints them.\n',
  ],
  [{ DATABASE_URL: 'mysql://u:hunter2@h/d' }, 'error: DATABASE_URL must be a postgres:// URL.\n'],
])('a wrong setting stops the start with a sentence that names it: %o', async (env, sentence) => {
  const data = join(folder.path, 'never')
  for (const command of ['serve', 'migrate']) {
    expect(await assay([command, '--data', data], { env })).toEqual({ code: 2, out: '', err: sentence })
  }
  expect(readdirSync(folder.path)).not.toContain('never')
})

test('a flag wins over its variable', async () => {
  const env = { ASSAY_PORT: '5000' }
  const { code, err } = await assay(['serve', '--port', 'abc'], { env })
  expect({ code, err }).toEqual({ code: 2, err: 'error: ASSAY_PORT must be a whole number from 0 to 65535.\n' })
})

test('reports a used port or an address of another machine in one sentence and exits with 1', async () => {
  await using database = await testDatabase()
  await using server = await localServer(() => {})
  const port = String(server.port)
  const env = { DATABASE_URL: database.url, ASSAY_LOG: 'silent' }
  const start = (...flags: string[]) => assay(['serve', '--data', join(folder.path, 'd'), ...flags], { env })

  const taken = await start('--port', port)
  expect(taken).toMatchObject({
    code: 1,
    err: expect.stringMatching(`^error: Port ${port} on 127.0.0.1 is in use. .*\n$`),
  })
  const foreign = await start('--port', '0', '--host', '192.0.2.1')
  expect(foreign).toMatchObject({
    code: 1,
    err: 'error: This machine has no address 192.0.2.1. Set --host or ASSAY_HOST.\n',
  })
})

test('reports a database that refuses the connection in one sentence and exits with 1', async () => {
  await using database = await testDatabase()
  const url = new URL(database.url)
  url.password = 'hunter2'
  const env = { DATABASE_URL: url.href, ASSAY_LOG: 'silent' }
  const { code, out, err } = await assay(['serve', '--data', join(folder.path, 'e'), '--port', '0'], { env })
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toMatch(/^error: password authentication failed for user "\w+"\n$/)
})

test.skipIf(!hasTerminal)('prints little on a terminal, and Ctrl-C stops it cleanly', async () => {
  await using database = await testDatabase()
  let stopped = false
  const args = ['serve', '--data', join(folder.path, 'f'), '--port', '0']
  const { code, out } = await onTerminal(args, { DATABASE_URL: database.url }, (shown) => {
    if (stopped || !shown.includes('Ctrl-C stops it')) return undefined
    stopped = true
    return '\u0003'
  })
  expect(code, out).toBe(0)
  expect(out).toMatch(/\r?\nassay ready http:\/\/127\.0\.0\.1:\d+\r\n/)
  expect(out).toContain('Stopping. Press Ctrl-C again to stop immediately.')
  expect(out).not.toContain('{"level"')
})

const AWAY = { DATABASE_URL: 'postgres://nobody:nothing@127.0.0.1:1/none' }

test('waits for a database that does not answer and prints the reason in one line', async () => {
  const service = launch(['serve', '--data', join(folder.path, 'away'), '--port', '0'], AWAY)
  service.ready.catch(() => undefined)
  const said = await service.err.shows(/\n/)
  service.child.kill('SIGKILL')
  expect(JSON.parse(said)).toMatchObject({
    msg: 'waiting for the database of DATABASE_URL',
    reason: 'connect ECONNREFUSED 127.0.0.1:1',
  })
  expect(said).not.toContain('stack')
})

test.runIf(isLongRun())('reports the last error after a few log lines', async () => {
  const { code, err } = await assay(['serve', '--data', join(folder.path, 'away'), '--port', '0'], { env: AWAY })
  const lines = err.trimEnd().split('\n')
  expect(code).toBe(3)
  expect(lines.length).toBeLessThan(6)
  expect(lines.at(-1)).toBe('error: The database of DATABASE_URL does not respond: connect ECONNREFUSED 127.0.0.1:1.')
})
