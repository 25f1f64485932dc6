import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/support/database.ts'
import { newGrantFacts, TERMS } from '../../test/support/gateway/gateway.ts'
import { newId } from '../platform/ids.ts'
import { closeGrant, hashSecret, isSecretOf, openGrant, readGrant, renewGrant } from './grants.ts'
import type { Ledger, NewCall, ReservationBounds, Settlement } from './ledger.ts'
import { createMemoryLedger } from './memory-ledger.ts'
import { createStoredLedger } from './stored-ledger.ts'
import { NO_USAGE } from './wire-protocol.ts'

let database: TestDatabase
const workspaceId = newId()
const GATEWAY = newId()
beforeAll(async () => {
  database = await testDatabase({ workspaceId })
})
afterAll(() => database[Symbol.asyncDispose]())

const facts = (changes: Parameters<typeof newGrantFacts>[0] = {}) => newGrantFacts({ workspaceId, ...changes })

/** A call that cannot do with less. */
const exactly = (micros: number): { bounds: ReservationBounds } => ({
  bounds: { mostMicros: micros, usualMicros: micros, leastMicros: micros },
})

const answerOf = async (ledger: Ledger, one: NewCall): Promise<string> => {
  const result = await ledger.reserve(one)
  return result.kind === 'reserved' ? 'reserved' : result.reason
}

const call = (grantId: string, changes: Partial<NewCall> = {}): NewCall => ({
  id: newId(),
  grantId,
  gatewayId: GATEWAY,
  kind: 'generate',
  protocol: 'anthropic-messages',
  helper: null,
  levelAsked: null,
  ...exactly(100),
  ...changes,
})

const settlement = (changes: Partial<Settlement> = {}): Settlement => ({
  outcome: 'succeeded',
  usage: { ...NO_USAGE, input: 10, output: 3, reasoning: 1 },
  costMicros: 40,
  costSource: 'metered',
  status: 200,
  failure: null,
  tries: 1,
  servedModel: 'large-1-2026',
  serviceTier: null,
  isRefusal: false,
  clientLeft: false,
  firstByteMs: 5,
  totalMs: 9,
  bodies: null,
  outputLimit: null,
  ...changes,
})

describe.each<[string, () => Ledger]>([
  ['in memory', createMemoryLedger],
  ['in PostgreSQL', () => createStoredLedger(database.db)],
])('a ledger %s', (_, open) => {
  let ledger: Ledger
  beforeAll(() => {
    ledger = open()
  })

  test('finds a grant by its tunnel secret, with its original terms, and stores no secret', async () => {
    const given = facts({ budgetMicros: 5, terms: { ...TERMS, prices: null } })
    const { id, token, tunnelSecret } = await openGrant(ledger, given)

    const found = await ledger.findByTunnelSecret(hashSecret(tunnelSecret))

    expect(found).toMatchObject({ ...given, id })
    expect(found && isSecretOf(token, found.tokenHash)).toBe(true)
    expect(await ledger.findByTunnelSecret(hashSecret(token))).toBeUndefined()
    const kept = JSON.stringify([found, await ledger.read(id)])
    expect(kept).not.toContain(token)
    expect(kept).not.toContain(tunnelSecret)
    expect([token, tunnelSecret]).toEqual([
      expect.stringMatching(/^[0-9A-Za-z]{43}$/),
      expect.stringMatching(/^\w{43}$/),
    ])
  })

  test('renews the tunnel secret of an open grant only; the former secret is invalid', async () => {
    const [open, closed] = [await openGrant(ledger, facts()), await openGrant(ledger, facts())]
    const expired = await openGrant(ledger, facts({ expiresAt: new Date(Date.now() - 1) }))
    await ledger.close(closed.id)

    const renewed = await renewGrant(ledger, open.id)

    expect(await ledger.findByTunnelSecret(hashSecret(renewed?.tunnelSecret ?? ''))).toMatchObject({ id: open.id })
    expect(await ledger.findByTunnelSecret(hashSecret(open.tunnelSecret))).toBeUndefined()
    for (const id of [closed.id, expired.id, newId()]) expect(await renewGrant(ledger, id)).toBeUndefined()
    expect(await ledger.findByTunnelSecret(hashSecret(closed.tunnelSecret))).toMatchObject({ id: closed.id })
  })

  test('a call costs its reservation until it is settled', async () => {
    const { id } = await openGrant(ledger, facts())
    const one = call(id, { levelAsked: { effort: 'low' }, helper: 'small-1' })

    expect(await answerOf(ledger, one)).toBe('reserved')
    const before = await ledger.read(id)
    await ledger.settle(one.id, settlement())
    await ledger.settle(one.id, settlement({ costMicros: 99 })) // the first counts
    const after = await ledger.read(id)

    expect(before).toMatchObject({
      spentMicros: 100,
      calls: [{ outcome: 'open', costMicros: 100, costSource: 'reserved' }],
    })
    expect(after).toMatchObject({
      spentMicros: 40,
      calls: [{ id: one.id, reservedMicros: 100, limitedBy: null, ...settlement() }],
    })
  })

  test('reservations count against the budget to the micro-dollar', async () => {
    const { id } = await openGrant(ledger, facts({ budgetMicros: 250 }))
    const calls = [call(id), call(id), call(id, exactly(51)), call(id, exactly(50))]

    const answers = []
    for (const each of calls) answers.push(await answerOf(ledger, each))

    expect(answers).toEqual(['reserved', 'reserved', 'budget', 'reserved'])
    expect(await readGrant(ledger, id)).toMatchObject({ costMicros: 0, pendingMicros: 250, calls: { open: 3 } })
  })

  test('an unknown cost is null, never zero, and keeps its reservation', async () => {
    const { id } = await openGrant(ledger, facts({ budgetMicros: 100 }))
    const one = call(id)
    await ledger.reserve(one)
    await ledger.settle(one.id, settlement({ costMicros: null, costSource: 'unknown' }))

    expect(await readGrant(ledger, id)).toMatchObject({ costMicros: null, costSource: 'unknown' })
    expect(await answerOf(ledger, call(id, exactly(1)))).toBe('budget')
  })

  test('enforces the number of calls, the expiry and the closing of a grant', async () => {
    const few = await openGrant(ledger, facts({ callsMax: 1 }))
    const late = await openGrant(ledger, facts({ expiresAt: new Date(Date.now() - 1) }))
    const closed = await openGrant(ledger, facts())
    await closeGrant(ledger, closed.id)
    await closeGrant(ledger, closed.id)

    expect(await answerOf(ledger, call(few.id))).toBe('reserved')
    expect(await answerOf(ledger, call(few.id))).toBe('calls')
    expect(await answerOf(ledger, call(late.id))).toBe('expired')
    expect(await answerOf(ledger, call(closed.id))).toBe('closed')
    expect(await answerOf(ledger, call(newId()))).toBe('closed')
  })

  test('a new grant closes earlier grants of the same grantee only', async () => {
    const grantee = `comparison/${newId()}/1`
    const [first, other] = [await openGrant(ledger, facts({ grantee })), await openGrant(ledger, facts())]
    const both = await Promise.all([openGrant(ledger, facts({ grantee })), openGrant(ledger, facts({ grantee }))])

    const states = await Promise.all([first, other, ...both].map(({ id }) => readGrant(ledger, id)))
    expect(states.slice(0, 2).map(({ isClosed }) => isClosed)).toEqual([true, false])
    expect(states.filter(({ isClosed }) => !isClosed)).toHaveLength(2) // the other's, and one of the two
  })

  test('closing waits for open calls; a call of a dead gateway costs its reservation until it is settled', async () => {
    const { id } = await openGrant(ledger, facts())
    const [ends, dies] = [call(id), call(id, { gatewayId: newId(), ...exactly(7) })]
    await ledger.reserve(ends)
    await ledger.reserve(dies)

    const closing = closeGrant(ledger, id, { drainMs: 400 })
    await ledger.settle(ends.id, settlement())
    const totals = await closing

    expect(totals).toMatchObject({ costMicros: 47, costSource: 'reserved', calls: { succeeded: 1, lost: 1, open: 0 } })
    await ledger.settle(dies.id, settlement({ costMicros: 1 }))
    await ledger.settle(dies.id, settlement({ costMicros: 2 }))
    expect(await readGrant(ledger, id)).toMatchObject({ costMicros: 41, costSource: 'metered', gatewayGone: false })
    expect((await ledger.read(id))?.spentMicros).toBe(41)
  })

  test('a call that a live gateway does not settle in time stays pending and counts once it is settled', async () => {
    const { id } = await openGrant(ledger, facts())
    const slow = call(id, { gatewayId: newId(), ...exactly(7) })
    await ledger.noteAlive(slow.gatewayId)
    await ledger.reserve(slow)

    const totals = await closeGrant(ledger, id, { drainMs: 20, settleMs: 50 })
    await ledger.settle(slow.id, settlement({ costMicros: 3 }))

    expect(totals).toMatchObject({ costMicros: 0, pendingMicros: 7, calls: { open: 1, lost: 0 } })
    expect(await readGrant(ledger, id)).toMatchObject({ costMicros: 3, pendingMicros: 0, costSource: 'metered' })
  })

  test('a call that can use less gets the remainder and records which budget limited it', async () => {
    const { id } = await openGrant(ledger, facts({ budgetMicros: 100 }))
    const bounds = { mostMicros: 500, usualMicros: 300, leastMicros: 40 }

    expect(await ledger.reserve(call(id, { bounds: { ...bounds, mostMicros: 30, leastMicros: 30 } }))).toEqual({
      kind: 'reserved',
      reservedMicros: 30,
      limitedBy: null,
    })
    const limited = call(id, { bounds })
    expect(await ledger.reserve(limited)).toEqual({ kind: 'reserved', reservedMicros: 70, limitedBy: 'budget' })
    expect(await ledger.reserve(call(id, { bounds }))).toEqual({ kind: 'refused', reason: 'budget', mayPass: true })
    await ledger.settle(limited.id, settlement({ costMicros: 61, outputLimit: 300 }))
    expect(await ledger.reserve(call(id, { bounds }))).toEqual({ kind: 'refused', reason: 'budget', mayPass: false })
    expect((await ledger.read(id))?.calls[1]).toMatchObject({ limitedBy: 'budget', outputLimit: 300 })
    const over = { bounds: { ...bounds, leastMicros: 400 } }
    expect(await ledger.reserve(call(id, over))).toEqual({ kind: 'refused', reason: 'budget', mayPass: false })
  })

  test('counts refusals by reason and reports the last failure', async () => {
    const { id } = await openGrant(ledger, facts())
    const [failed, good] = [call(id), call(id)]
    await ledger.reserve(failed)
    const failure = { outcome: 'failed', failure: 'rate', status: 429, costMicros: 0, usage: NO_USAGE } as const
    await ledger.settle(failed.id, settlement(failure))
    expect((await readGrant(ledger, id)).lastFailure).toMatchObject({ status: 429, kind: 'rate', isRecovered: false })
    await ledger.refuse(id, 'budget')
    await ledger.refuse(id, 'budget')
    await ledger.refuse(id, 'hosted')

    const totals = await readGrant(ledger, id)
    expect(totals).toMatchObject({ refusals: { budget: 2, hosted: 1 }, lastFailure: { status: null, kind: 'budget' } })
    await ledger.reserve(good)
    expect(totals.calls).toMatchObject({ failed: 1, succeeded: 0 })
  })

  test('concurrent calls never exceed the budget', async () => {
    const { id } = await openGrant(ledger, facts({ budgetMicros: 10_000, callsMax: 100_000 }))
    const one = async () => {
      const each = call(id, exactly(90))
      const answer = await answerOf(ledger, each)
      if (answer === 'reserved') await ledger.settle(each.id, settlement({ costMicros: 70 }))
      return answer
    }

    const answers = await Promise.all(Array.from({ length: 2000 }, one))

    const { spentMicros = 0, calls = [] } = (await ledger.read(id)) ?? {}
    const made = answers.filter((answer) => answer === 'reserved').length
    expect(calls).toHaveLength(made)
    expect(spentMicros).toBe(made * 70)
    expect(spentMicros).toBeLessThanOrEqual(10_000)
    expect(new Set(answers)).toEqual(new Set(['reserved', 'budget']))
  })
})
