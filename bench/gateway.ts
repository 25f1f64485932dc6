import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { openGrant } from '../src/gateway/grants.ts'
import { openSandboxPort } from '../src/gateway/sandbox-port.ts'
import { createStoredLedger } from '../src/gateway/stored-ledger.ts'
import { connect, type Db } from '../src/platform/db/db.ts'
import { migrate } from '../src/platform/db/migrate.ts'
import { newId } from '../src/platform/ids.ts'
import { beginEvents, EVENTS, message, newGrantFacts, sendJson } from '../test/support/gateway/gateway.ts'
import { startServer } from '../test/support/loopback-servers.ts'
import { startProgram } from '../test/support/program.ts'
import {
  type CallRoute,
  cpuMs,
  type GatewayContender,
  type GatewayRoute,
  measureConcurrent,
  measureInTurns,
  readHeldStream,
  timeFirstEvent,
  timeSmallCall,
} from './gateway-calls.ts'
import {
  atMost,
  type BenchMeasurement,
  type MeasureRow,
  mebibytes,
  milliseconds,
  note,
  perSecond,
  times,
} from './measure.ts'
import { PORTKEY, type Portkey, startPortkey } from './portkey.ts'
import { withPostgres } from './postgres.ts'

const CALLS = 2000
const WARM = 200
const STREAMS = 1000
const PER_GRANT = 50
const AT_ONCE = 16
const PROCESS = new URL('../test/support/gateway/gateway-process.ts', import.meta.url).pathname

export const gatewayBench: BenchMeasurement = {
  name: 'Gateway',
  about: `Calls to a provider on loopback: directly, through a gateway in its own process (tunnel, reservation committed, settlement committed), and through ${PORTKEY}, which has no ledger. ${CALLS} of each, alternating and sequential; then ${AT_ONCE} concurrent, in alternating rounds; then ${STREAMS} concurrent streams. Ratios are ours / theirs.`,
  run: () => withPostgres(measure),
}

async function measure(databaseUrl: string): Promise<MeasureRow[]> {
  await using undo = new AsyncDisposableStack()
  const database = connect(databaseUrl, { max: 10, onError: () => {} })
  undo.defer(database.close)
  await migrate(database.db)
  const release = Promise.withResolvers<void>()
  const provider = undo.use(await startProvider(release.promise))
  const upstream = `http://127.0.0.1:${provider.port}`
  const gateway = await startProgram(PROCESS, [database.url, upstream])
  undo.defer(async () => void (await gateway.kill('SIGTERM')))
  const pid = gateway.process.pid ?? 0
  const sandboxes = await sandboxOpener(database.db, gateway.url, undo)
  const beside = await startPortkey(upstream)
  const theirs = typeof beside === 'string' ? beside : contenderOf(undo.use(beside))

  const direct: GatewayRoute = { url: upstream, headers: { 'x-api-key': 'none' } }
  const rows = await calls(direct, { pid, routes: await sandboxes(AT_ONCE) }, theirs)
  const memory = await manyStreams(await sandboxes(STREAMS / PER_GRANT), release.resolve, pid)
  return [atMost(`memory with ${STREAMS} streams`, memory, 400, mebibytes), ...rows]
}

const startProvider = (release: Promise<void>) =>
  startServer((incoming, response) => {
    incoming.once('data', (body: Buffer) => {
      if (!body.includes('"stream":true')) return sendJson(response, message())
      beginEvents(response).write(EVENTS[0])
      const end = () => response.end(EVENTS.slice(1).join(''))
      if (incoming.url?.includes('beta')) void release.then(end)
      else end()
    })
  })

const contenderOf = ({ url, pid, headers }: Portkey): GatewayContender => ({
  pid,
  routes: Array.from({ length: AT_ONCE }, () => ({ url, headers: { ...headers, 'x-api-key': 'none' } })),
})

async function calls(
  direct: GatewayRoute,
  ours: GatewayContender,
  theirs: GatewayContender | string,
): Promise<MeasureRow[]> {
  const contenders = typeof theirs === 'string' ? [ours] : [ours, theirs]
  const small = await added(direct, contenders, timeSmallCall)
  const first = await added(direct, contenders, timeFirstEvent)
  const many = await measureConcurrent(contenders)
  const [mine, its] = contenders.map((_, place) => ({ ...small[place], ...many[place], first: first[place] }))
  const rows = [
    atMost('added to a small call, p50', small[0]?.p50 ?? Number.NaN, 3, milliseconds),
    atMost('added to a small call, p99', small[0]?.p99 ?? Number.NaN, 10, milliseconds),
    atMost('added to the first byte of a stream, p50', first[0]?.p50 ?? Number.NaN, 3, milliseconds),
    note('a small call, directly', milliseconds(small[0]?.direct ?? Number.NaN)),
  ]
  if (typeof theirs === 'string') return [...rows, note(`comparison with ${PORTKEY}`, theirs)]
  return [
    ...rows,
    beside('added to a small call, p50', mine?.p50, its?.p50, milliseconds),
    beside('added to a small call, p99', mine?.p99, its?.p99, milliseconds),
    beside('added to the first byte of a stream, p50', mine?.first?.p50, its?.first?.p50, milliseconds),
    beside('added to the first byte of a stream, p99', mine?.first?.p99, its?.first?.p99, milliseconds),
    beside('CPU time of the gateway process per small call', mine?.alone, its?.alone, milliseconds),
    beside(
      `CPU time of the gateway process per small call, ${AT_ONCE} concurrent`,
      mine?.cpuMs,
      its?.cpuMs,
      milliseconds,
    ),
    beside(`small calls per second, ${AT_ONCE} concurrent`, mine?.perSecond, its?.perSecond, perSecond),
  ]
}

/** Compares the latency that each gateway adds (median and tail) and its CPU time per call. */
async function added(direct: GatewayRoute, contenders: GatewayContender[], ask: CallRoute) {
  const routes = [direct, ...contenders.flatMap(({ routes }) => routes.slice(0, 1))]
  await measureInTurns(routes, WARM, ask)
  const before = contenders.map(({ pid }) => cpuMs(pid))
  const [near, ...far] = await measureInTurns(routes, CALLS, ask)
  return contenders.map(({ pid }, place) => ({
    direct: near?.p50 ?? Number.NaN,
    p50: (far[place]?.p50 ?? Number.NaN) - (near?.p50 ?? 0),
    p99: (far[place]?.p99 ?? Number.NaN) - (near?.p99 ?? 0),
    alone: (cpuMs(pid) - (before[place] ?? 0)) / CALLS,
  }))
}

function beside(what: string, ours = Number.NaN, theirs = Number.NaN, show: (n: number) => string): MeasureRow {
  return note(`${what}, ratio to ${PORTKEY}`, `${times(ours / theirs)} (${show(ours)}, ${show(theirs)})`)
}

/** Opens a grant and a route to the gateway for each sandbox. */
async function sandboxOpener(db: Db, gatewayUrl: string, undo: AsyncDisposableStack) {
  const workspaceId = newId()
  await db.insertInto('workspaces').values({ id: workspaceId, login: 'acme', name: 'Acme', kind: 'org' }).execute()
  const openOne = async (): Promise<GatewayRoute> => {
    const facts = newGrantFacts({ workspaceId, callsMax: 1_000_000 })
    const { token, tunnelSecret } = await openGrant(createStoredLedger(db), facts)
    const port = openSandboxPort({ gatewayUrl, tunnelSecret })
    const server = createServer(port.onConnection)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    undo.defer(() => {
      port.close()
      server.close()
    })
    const address = server.address()
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
    return { url, headers: { 'x-api-key': token } }
  }
  return (count: number): Promise<GatewayRoute[]> => Promise.all(Array.from({ length: count }, openOne))
}

/** Opens all streams at the same time, then ends them. Returns the gateway's peak memory. */
async function manyStreams(routes: GatewayRoute[], release: () => void, pid: number): Promise<number> {
  let open = 0
  const all = Promise.withResolvers<void>()
  const opened = () => {
    open += 1
    if (open === STREAMS) all.resolve()
  }
  const streams = routes.flatMap((route) => Array.from({ length: PER_GRANT }, () => readHeldStream(route, opened)))
  const ended = Promise.all(streams)
  await Promise.race([all.promise, ended])
  release()
  const expected = EVENTS.join('')
  if ((await ended).some((text) => text !== expected)) throw new Error('A stream came otherwise than it was sent.')
  const [, kib = ''] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kib) / 1024
}
