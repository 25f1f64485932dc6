import { expect, test } from 'vitest'
import { done, reject, withEvidence } from './stage-result.ts'

test('a rejection includes the evidence it was based on, and a success is unchanged', () => {
  const runs = { runs: [1, 2] }
  expect(withEvidence(reject('p2f', 'It breaks.'), runs)).toEqual({ ...reject('p2f', 'It breaks.'), evidence: runs })
  const own = reject('leak_url', 'It says where.', { findings: [] })
  expect(withEvidence(own, runs)).toEqual(own)
  const deferred = { kind: 'deferred', reason: 'provider', detail: 'It broke.', retryAfterMs: 1 } as const
  for (const result of [done(1), deferred]) expect(withEvidence(result, runs)).toBe(result)
})
