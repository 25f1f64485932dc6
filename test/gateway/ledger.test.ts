import { afterAll, beforeAll, expect, test } from 'vitest'
import type { MockUsage } from '../../samples/provider/conversation.ts'
import type { FaultInput } from '../../samples/provider/script.ts'
import type { RecordedCall } from '../../src/gateway/ledger.ts'
import { createStoredLedger } from '../../src/gateway/stored-ledger.ts'
import { PROTOCOLS } from '../../src/harnesses/model-access.ts'
import { newId } from '../../src/platform/ids.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { KEY, openGatewayFixture, type SandboxClient, TERMS } from '../support/gateway/gateway.ts'
import { buildProviderRequest, startTestProvider } from '../support/provider.ts'

const CALLS = 1000
const AT_ONCE = 16
const MODEL = 'large-1'

let database: TestDatabase
const workspaceId = newId()
beforeAll(async () => {
  database = await testDatabase({ workspaceId })
})
afterAll(() => database[Symbol.asyncDispose]())

/** Every call has a different cost, so that calls cannot be confused. */
const usageOf = (place: number): MockUsage => ({
  input: 10_000 + place,
  cacheRead: (place * 7) % 1009,
  cacheWrite5m: (place * 11) % 1013,
  cacheWrite1h: (place * 13) % 1019,
  output: 100 + ((place * 17) % 1021),
  reasoning: (place * 19) % 97,
})

// An empty fault stands for a successful call.
const FAULTS: FaultInput[] = [
  { times: 9 },
  { status: 429, retryAfter: '0', times: 2 },
  { times: 5 },
  { status: 500 },
  { times: 3 },
  { cutAfter: 2 },
  { times: 4 },
  { malformed: 'within' },
  { malformed: 'after' },
  { pauseMs: 1, times: 3 },
  { refuse: true },
]

/** As long as the usage that the provider reports, which is otherwise not believed. */
const PADDING = 'word '.repeat(3_000)

const levelOf = (place: number): string => (place % 10 === 0 ? 'low' : 'high')

/** A call whose client reads only the beginning of a slow stream. */
const isLeft = (place: number): boolean => place % 7 === 0

/** Makes one call and reads it to the end, or disconnects after the first bytes. */
async function ask(sandbox: SandboxClient, place: number): Promise<void> {
  const isStream = place % 3 !== 0
  const effort = levelOf(place)
  const protocol = PROTOCOLS[place % PROTOCOLS.length] ?? 'gemini'
  const prompt = `Call ${place}; ${PADDING}`
  const { path, body } = buildProviderRequest(protocol, { model: MODEL, prompt, isStream, effort })
  const leave = new AbortController()
  try {
    const answer = await sandbox.post(path, body, { signal: leave.signal })
    const reader = answer.body?.getReader()
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
      if (isLeft(place)) leave.abort()
    }
  } catch {
    // The stream broke or the client disconnected; the provider's records say which.
  }
}

async function askAll(sandbox: SandboxClient): Promise<void> {
  const places = Array.from({ length: CALLS }, (_, place) => place).values()
  const clients = Array.from({ length: AT_ONCE }, async () => {
    for (const place of places) await ask(sandbox, place)
  })
  await Promise.all(clients)
}

const sorted = <T>(rows: T[]): string[] => rows.map((row) => JSON.stringify(row)).sort()

const tokens = ({ input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning }: MockUsage): MockUsage => ({
  input,
  cacheRead,
  cacheWrite5m,
  cacheWrite1h,
  output,
  reasoning,
})

test('for 1,000 mixed calls the ledger matches the provider to the token or is marked as estimated', async () => {
  const turn = (place: number) => ({
    say: 'A few words, in more than one piece of a stream.',
    usage: usageOf(place),
    trouble: isLeft(place) ? { pauseMs: 10 } : undefined,
  })
  const tasks = Array.from({ length: CALLS }, (_, place) => ({ match: `Call ${place};`, turns: [turn(place)] }))
  const faults = Array.from({ length: CALLS / 25 }, () => FAULTS).flat()
  await using provider = await startTestProvider({ keys: [KEY], models: [MODEL], tasks, faults })
  const ledger = createStoredLedger(database.db)
  const resolveUpstream = () => ({ url: provider.url, trust: 'operator' as const })
  // Calls with several faults are still answered.
  const retry = { triesMax: 100, totalMs: 60_000, firstMs: 1, pauseMaxMs: 10, quietMs: 0 }
  await using fixture = await openGatewayFixture(() => {}, { ledger, options: { retry }, tools: { resolveUpstream } })
  const terms = { ...TERMS, outputTokens: 2_000 }
  const sandbox = await fixture.sandbox({ workspaceId, callsMax: CALLS, terms })

  await askAll(sandbox)
  await expect.poll(() => ledger.countOpenCalls(sandbox.id)).toBe(0)

  const calls: RecordedCall[] = (await ledger.read(sandbox.id))?.calls ?? []
  // The gateway's own requests, which have no tools, ask whether the provider works. Their cost is part of a call.
  const booked = provider.calls().filter(({ tools }) => tools.length > 0)
  const answered = booked.filter(({ usage }) => usage !== null)
  const said = answered.filter(({ isUsageSaid }) => isUsageSaid)
  const metered = calls.filter(({ costSource, status }) => costSource === 'metered' && status === 200)

  // Each call is one row, each attempt one call at the provider, and nothing was answered twice.
  expect(calls).toHaveLength(CALLS)
  expect(calls.reduce((sum, { tries }) => sum + tries, 0)).toBe(booked.length)
  expect(answered).toHaveLength(CALLS)

  // Exact to the token and to the micro-dollar.
  const counted = said.map(({ protocol, usage }) => ({ protocol, usage: usage && tokens(usage) }))
  expect(sorted(metered.map(({ protocol, usage }) => ({ protocol, usage: tokens(usage) })))).toEqual(sorted(counted))
  const hundredths = (usage: MockUsage): number =>
    usage.input * 300 + usage.cacheRead * 30 + usage.cacheWrite5m * 375 + usage.cacheWrite1h * 600 + usage.output * 1500
  expect(metered.filter(({ usage, costMicros }) => costMicros !== Math.floor((hundredths(usage) + 50) / 100))).toEqual(
    [],
  )

  // The others are marked as estimated, and every kind occurs.
  const sources = calls.map(({ costSource }) => costSource)
  expect(sources.filter((source) => source === 'estimated')).toHaveLength(CALLS - said.length)
  expect(new Set(sources)).toEqual(new Set(['metered', 'estimated']))
  expect(booked.filter(({ status }) => status !== 200).length).toBeGreaterThan(50)
  expect(calls.filter(({ clientLeft }) => clientLeft).length).toBeGreaterThan(0)
  expect(calls.filter(({ levelAsked }) => levelAsked !== null)).toHaveLength(CALLS / 10)
})
