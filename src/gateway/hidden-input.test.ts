import { expect, test } from 'vitest'
import { openGatewayFixture, sendJson, TERMS } from '../../test/support/gateway/gateway.ts'
import type { Json } from '../harnesses/json.ts'

// An agent must not be able to show the provider more text than the same bytes had in an earlier request.

const answer = (tokens: number) => ({
  model: 'large-1',
  choices: [{ message: { content: 'x' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: tokens, completion_tokens: 10, total_tokens: tokens + 10 },
})

const DOLLAR = 1_000_000

/** One token per character of text, as in text of rare characters. Members that the provider does not know are ignored. */
const countTokens = (body: Buffer): number =>
  JSON.parse(body.toString()).messages.reduce(
    (sum: number, { content }: { content?: Json }) => sum + (typeof content === 'string' ? content.length : 0),
    0,
  )

test('a request that reveals text which the provider had ignored before does not exceed the budget', async () => {
  await using fixture = await openGatewayFixture((response, { body }) => sendJson(response, answer(countTokens(body))))
  const terms = { ...TERMS, contextTokens: 1_000_000 }
  const sandbox = await fixture.sandbox({ budgetMicros: DOLLAR, terms })
  const ask = (name: string) =>
    sandbox.post('/v1/chat/completions', {
      model: 'large-1',
      max_tokens: 300,
      messages: [
        { role: 'user', content: 'q'.repeat(40_000) },
        { role: 'user', [name]: 'z'.repeat(150_000) },
      ],
    })

  expect((await ask('ignored')).status).toBe(200)
  await Promise.all(Array.from({ length: 8 }, () => ask('content')))

  const state = await fixture.ledger.read(sandbox.id)
  expect(state?.calls.length).toBeGreaterThan(1)
  expect(state?.spentMicros).toBeLessThanOrEqual(DOLLAR)
  for (const { costMicros, reservedMicros } of state?.calls ?? [])
    expect(costMicros).toBeLessThanOrEqual(reservedMicros ?? 0)
})
