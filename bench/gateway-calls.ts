import { readFileSync } from 'node:fs'
import { request } from 'undici'
import { messagesRequest } from '../test/support/gateway/gateway.ts'
import { median } from './measure.ts'

/** A route to the provider, for comparison with others. */
export type GatewayRoute = { url: string; headers: Record<string, string> }

export type CallRoute = (way: GatewayRoute) => Promise<number>

const send = ({ url, headers }: GatewayRoute, path: string) =>
  request(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(messagesRequest({ stream: path.includes('?') })),
  })

/** Milliseconds until a small answer is complete. */
export async function wholeMs(way: GatewayRoute): Promise<number> {
  const started = performance.now()
  const { body, statusCode } = await send(way, '/v1/messages')
  await body.text()
  requireGood(statusCode)
  return performance.now() - started
}

/** Milliseconds until the first event of a stream. */
export async function firstMs(way: GatewayRoute): Promise<number> {
  const started = performance.now()
  const { body, statusCode } = await send(way, '/v1/messages?alt=sse')
  let first: number | undefined
  for await (const _ of body) first ??= performance.now() - started
  requireGood(statusCode)
  return first ?? Number.NaN
}

/** Text of a stream that stays open until the provider ends it. */
export async function heldStream(way: GatewayRoute, opened: () => void): Promise<string> {
  const { body, statusCode } = await send(way, '/v1/messages?beta=true')
  requireGood(statusCode)
  let text = ''
  for await (const chunk of body) {
    if (text === '') opened()
    text += String(chunk)
  }
  return text
}

function requireGood(statusCode: number): void {
  if (statusCode !== 200) throw new Error(`A call was answered with ${statusCode}.`)
}

/** Measures all routes in turns, so that other load on the machine affects them equally. */
export async function inTurns(
  ways: GatewayRoute[],
  calls: number,
  ask: CallRoute,
): Promise<{ p50: number; p99: number }[]> {
  const times: number[][] = ways.map(() => [])
  for (let call = 0; call < calls; call++) {
    for (const [place, way] of ways.entries()) times[place]?.push(await ask(way))
  }
  return times.map((each) => ({ p50: median(each), p99: late(each) }))
}

const late = (times: number[]): number => times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? Number.NaN

/** A gateway with its routes, each used for one call at a time. */
export type GatewayContender = { pid: number; ways: GatewayRoute[] }

const ROUNDS = 6
const CALLS_PER_ROUND = 600

/** Measures concurrent calls in alternating rounds: calls per second and CPU time per call. */
export async function atOnce(contenders: GatewayContender[]): Promise<{ perSecond: number; cpuMs: number }[]> {
  const sums = contenders.map(() => ({ ms: 0, cpu: 0 }))
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [place, { pid, ways }] of contenders.entries()) {
      const [started, cpuBefore] = [performance.now(), cpuMs(pid)]
      let left = CALLS_PER_ROUND
      const caller = async (way: GatewayRoute) => {
        while (left-- > 0) await wholeMs(way)
      }
      await Promise.all(ways.map(caller))
      const sum = sums[place]
      if (!sum || round === 0) continue // the first is to warm up
      sum.ms += performance.now() - started
      sum.cpu += cpuMs(pid) - cpuBefore
    }
  }
  const calls = ROUNDS * CALLS_PER_ROUND
  return sums.map(({ ms, cpu }) => ({ perSecond: (calls / ms) * 1000, cpuMs: cpu / calls }))
}

const TICKS_PER_SECOND = 100

/** CPU milliseconds of one process. Comparable on a busy machine. */
export function cpuMs(pid: number): number {
  const [, after = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const fields = after.split(' ')
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND
}
