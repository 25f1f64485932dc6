import { readFileSync } from 'node:fs'
import { request } from 'undici'
import { messagesRequest } from '../test/support/gateway/gateway.ts'
import { median } from './measure.ts'

/** A route to the provider: direct, or through one of the gateways. */
export type GatewayRoute = { url: string; headers: Record<string, string> }

/** Sends one call over a route and returns its duration in milliseconds. */
export type CallRoute = (route: GatewayRoute) => Promise<number>

const send = ({ url, headers }: GatewayRoute, path: string) =>
  request(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(messagesRequest({ stream: path.includes('?') })),
  })

/** Returns the milliseconds until a small answer is complete. */
export async function timeSmallCall(route: GatewayRoute): Promise<number> {
  const started = performance.now()
  const { body, statusCode } = await send(route, '/v1/messages')
  await body.text()
  requireOk(statusCode)
  return performance.now() - started
}

/** Returns the milliseconds until the first event of a stream. */
export async function timeFirstEvent(route: GatewayRoute): Promise<number> {
  const started = performance.now()
  const { body, statusCode } = await send(route, '/v1/messages?alt=sse')
  let first: number | undefined
  for await (const _ of body) first ??= performance.now() - started
  requireOk(statusCode)
  return first ?? Number.NaN
}

/** Reads a stream that stays open until the provider ends it. Calls `opened` after the first chunk and returns the text. */
export async function readHeldStream(route: GatewayRoute, opened: () => void): Promise<string> {
  const { body, statusCode } = await send(route, '/v1/messages?beta=true')
  requireOk(statusCode)
  let text = ''
  for await (const chunk of body) {
    if (text === '') opened()
    text += String(chunk)
  }
  return text
}

function requireOk(statusCode: number): void {
  if (statusCode !== 200) throw new Error(`The call failed with status ${statusCode}.`)
}

/** Measures all routes in turns, so that other load on the machine affects them equally. */
export async function measureInTurns(
  routes: GatewayRoute[],
  calls: number,
  ask: CallRoute,
): Promise<{ p50: number; p99: number }[]> {
  const times: number[][] = routes.map(() => [])
  for (let call = 0; call < calls; call++) {
    for (const [index, route] of routes.entries()) times[index]?.push(await ask(route))
  }
  return times.map((each) => ({ p50: median(each), p99: p99(each) }))
}

const p99 = (times: number[]): number => times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? Number.NaN

/** A gateway to measure, with one route per concurrent call. */
export type GatewayContender = { pid: number; routes: GatewayRoute[] }

const ROUNDS = 6
const CALLS_PER_ROUND = 600

/** Measures concurrent calls in alternating rounds: calls per second and CPU time per call. */
export async function measureConcurrent(
  contenders: GatewayContender[],
): Promise<{ perSecond: number; cpuMs: number }[]> {
  const sums = contenders.map(() => ({ ms: 0, cpu: 0 }))
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [index, { pid, routes }] of contenders.entries()) {
      const [started, cpuBefore] = [performance.now(), cpuMs(pid)]
      let remaining = CALLS_PER_ROUND
      const caller = async (route: GatewayRoute) => {
        while (remaining-- > 0) await timeSmallCall(route)
      }
      await Promise.all(routes.map(caller))
      const sum = sums[index]
      if (!sum || round === 0) continue // The first round is a warm-up.
      sum.ms += performance.now() - started
      sum.cpu += cpuMs(pid) - cpuBefore
    }
  }
  const calls = ROUNDS * CALLS_PER_ROUND
  return sums.map(({ ms, cpu }) => ({ perSecond: (calls / ms) * 1000, cpuMs: cpu / calls }))
}

const TICKS_PER_SECOND = 100

/** Returns the CPU time that a process has used, in milliseconds. Unlike elapsed time, it is comparable on a busy machine. */
export function cpuMs(pid: number): number {
  const [, after = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const fields = after.split(' ')
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND
}
