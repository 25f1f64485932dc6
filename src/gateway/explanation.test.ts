import { expect, test } from 'vitest'
import { type ExplainedTrial, explainTrial } from './explanation.ts'
import { computeTotals, type GrantTotals } from './totals.ts'

const NOTHING = computeTotals({
  grant: {} as never,
  spentMicros: 0,
  refusals: {},
  lastRefusal: null,
  closedAt: null,
  calls: [],
})

const FAILED: ExplainedTrial = {
  state: 'failed',
  class: 'verified',
  reward: 0,
  rewards: { reward: 0 },
  error: null,
  limit: null,
  timings: { prepare: 1, agent: 899.6, verify: 1, total: 902 },
  steps: [],
}

const agent = (exit: { code: number | null; limit?: 'seconds' | 'memory' | null; seconds?: number }) => ({
  agent: { limit: null, seconds: 1, outputBytes: 0, ...exit },
})

type LastFailure = NonNullable<GrantTotals['lastFailure']>
const failing = (failure: Partial<LastFailure>, over: Partial<GrantTotals> = {}): GrantTotals => ({
  ...NOTHING,
  lastFailure: { status: null, kind: 'upstream', at: new Date(0), isRecovered: false, ...failure },
  ...over,
})
const answered = (succeeded: number, output = 0): GrantTotals => ({
  ...NOTHING,
  calls: { ...NOTHING.calls, succeeded },
  usage: { ...NOTHING.usage, output },
})

const DNS = 'Request to http://nowhere.example failed: the host name could not be resolved (ENOTFOUND).'
const REFUSED = 'Request to http://127.0.0.1:9 failed: the connection was refused (ECONNREFUSED).'
const CONTEXT = 'request (2257 tokens) exceeds the available context size (1024 tokens), try increasing it'

test.each<[string, Partial<ExplainedTrial>, GrantTotals | null, string | null]>([
  ['a full score', { state: 'passed', reward: 1 }, null, null],
  ['failed tests', { steps: [{ agent: null, failedTests: ['a', 'b'] }] }, null, '2 tests failed: a, b.'],
  ['one failed test', { steps: [{ agent: null, failedTests: ['a'] }] }, answered(3), '1 test failed: a.'],
  [
    'many failed tests',
    { steps: [{ agent: null, failedTests: ['a', 'b', 'c', 'd', 'e'] }] },
    null,
    '5 tests failed: a, b, c and 2 more.',
  ],
  ['partial credit', { reward: 0.5, rewards: { reward: 0.5, case: 0, end: 1 } }, null, 'The reward is 0.5: case 0.'],
  ['no names', {}, null, 'The tests of the task gave the reward 0.'],
  [
    'a failed agent',
    { class: 'agent_exit', steps: [{ ...agent({ code: 3 }), failedTests: ['a'] }] },
    answered(1),
    'The agent ended with exit code 3, and 1 test failed: a.',
  ],
  [
    'a time limit while the model answered',
    { class: 'agent_timeout', steps: [agent({ code: null, limit: 'seconds', seconds: 600.2 })] },
    answered(7, 12_345),
    'The agent reached its time limit after 600 s, while its model had produced 12,345 tokens in 7 calls.',
  ],
  [
    'a time limit that cut off a call',
    { class: 'agent_timeout' },
    failing({ kind: 'request' }, { calls: { ...NOTHING.calls, cut: 1 }, usage: { ...NOTHING.usage, output: 40 } }),
    'The agent reached its time limit after 900 s, while its model had produced 40 tokens in 1 call.',
  ],
  [
    'a program that never started',
    { class: 'agent_timeout' },
    NOTHING,
    'The agent reached its time limit after 900 s and never called its model.',
  ],
  ['a time limit without a model', { class: 'agent_timeout' }, null, 'The agent reached its time limit after 900 s.'],
  ['memory', { class: 'limit', limit: 'memory' }, null, 'The agent ran out of memory.'],
  ['a refusal', { class: 'refusal' }, { ...answered(2), modelRefusals: 2 }, 'The model declined to answer 2 times.'],
  [
    'a spent budget',
    { class: 'budget_stop' },
    failing({ kind: 'budget' }),
    'The budget of the trial was spent before the agent had finished.',
  ],
  [
    'a broken build',
    {
      state: 'errored',
      class: 'sandbox_error',
      reward: null,
      error: 'RUN ended with 7.\nLast output of the build:\n x',
    },
    failing({ kind: 'upstream', message: REFUSED }),
    'RUN ended with 7.',
  ],
  [
    'a name that does not exist',
    { state: 'errored', class: 'provider_error' },
    failing({ message: DNS }),
    `The provider could not be reached: ${DNS}`,
  ],
  [
    'a server that is not running',
    { state: 'errored', class: 'provider_error' },
    failing({ message: REFUSED }),
    `The provider could not be reached: ${REFUSED}`,
  ],
  [
    'a wrong key',
    { state: 'errored', class: 'operator_error' },
    failing({ kind: 'credential', status: 401, message: 'Invalid API Key' }),
    'The provider rejected the key (401): "Invalid API Key".',
  ],
  [
    'an account without credit',
    { state: 'errored', class: 'operator_error' },
    failing({ kind: 'credential', status: 402, message: 'Insufficient balance' }),
    `The provider refused the call because the account's credit is used up (402): "Insufficient balance".`,
  ],
  [
    'a key without the permission',
    { state: 'errored', class: 'operator_error' },
    failing({ kind: 'credential', status: 403, message: 'Model access denied' }),
    'The provider does not allow this key to make the call (403): "Model access denied".',
  ],
  [
    'a context that is too short',
    {},
    failing({ kind: 'request', status: 400, message: CONTEXT }),
    `A request of 2257 tokens exceeds the model's context of 1024 tokens: "${CONTEXT}".`,
  ],
  [
    'a rate limit',
    { state: 'errored', class: 'provider_error' },
    failing({ kind: 'rate', status: 429, message: 'Too many requests', lastedMs: 185_000 }),
    'The provider limited the rate of calls for 3 minutes (429): "Too many requests".',
  ],
  [
    'a short outage',
    { state: 'errored', class: 'provider_error' },
    failing({ status: 503, message: 'Loading "model"', lastedMs: 5000 }),
    `The provider failed (503): "Loading 'model'".`,
  ],
  [
    'an unknown model',
    { state: 'errored', class: 'operator_error' },
    failing({ kind: 'model', status: 404, message: "model 'x' not found" }),
    `The provider does not have this model, or the program requested another one (404): "model 'x' not found".`,
  ],
  [
    'no words of the provider',
    { state: 'errored', class: 'provider_error' },
    failing({ kind: 'upstream', status: 502 }),
    'The provider is unavailable.',
  ],
  [
    'a failure that passed',
    { steps: [{ agent: null, failedTests: ['a'] }] },
    failing({ kind: 'rate', status: 429, message: 'slow down', isRecovered: true }),
    '1 test failed: a.',
  ],
])('explains %s', (_, trial, totals, sentence) => {
  expect(explainTrial({ ...FAILED, ...trial }, totals)).toBe(sentence)
})
