import { afterAll, beforeAll, expect, test } from 'vitest'
import { type KnownRepository, openKnown } from '../../../../test/batches/known-pull.ts'
import { drafts } from '../../../../test/support/repositories/tally/drafts.ts'
import { tally } from '../../../../test/support/repositories/tally/tally.ts'
import { said, whenWriting } from '../../../../test/support/taskgen/scripted-answers.ts'
import { openStageModelFixture, type StageModelFixture } from '../../../../test/support/taskgen/stage-model.ts'
import { AUTHOR_LIMITS } from '../../models/stage-model.ts'
import type { CandidateState, StageContext } from '../stage.ts'
import { authoringStage } from './stages.ts'

let fixture: StageModelFixture
let known: KnownRepository
beforeAll(async () => {
  fixture = await openStageModelFixture()
  known = await openKnown(tally)
})
afterAll(async () => {
  await known[Symbol.asyncDispose]()
  await fixture[Symbol.asyncDispose]()
})

const GENERATION = {
  authorModel: 'acme/large',
  verifierModel: 'acme/large',
  reasoning: 'low',
} as CandidateState['generation']
const ISSUE = { title: 'A refund is booked as a payment', body: 'It happened to every refund below one unit.' }

async function buildState(issues: CandidateState['candidate']['issues']): Promise<CandidateState> {
  const { pullRequest, facts } = await known.pull(1)
  const { title, body, base, head } = pullRequest
  const lists = { failToPass: [...facts.failToPass], passToPass: [], guards: [] }
  const plan = { runner: 'pytest', prepare: [], targets: [], timeoutSec: 60 }
  const text = { number: 1, title, body, issues, mergedAt: '2025-03-02T00:00:00Z' }
  return {
    taskId: 'abcdefghij',
    generation: GENERATION,
    edited: null,
    files: null,
    candidate: { ...text, base, head, difficulty: 'easy' } as CandidateState['candidate'],
    outputs: { execution: { lists, plan, messages: {}, failsByAssertion: true } },
  }
}

/** Only with all of these texts in front of it does the author write. */
async function hasPromptTexts(issues: CandidateState['candidate']['issues'], ...wanted: string[]): Promise<boolean> {
  await using model = await fixture.open(
    'openai-chat',
    { tasks: [whenWriting(said(drafts[1]), ...wanted)] },
    AUTHOR_LIMITS,
  )
  const repository = { location: known.location, fetchBlobs: async () => {}, keep: () => {}, upstream: [] }
  const context = {
    repository: async () => repository,
    model: async () => model,
  } as Partial<StageContext> as StageContext
  const { kind } = await authoringStage.run(await buildState(issues), context, new AbortController().signal)
  return kind === 'done'
}

test('passes issue texts to the author model', async () => {
  expect(await hasPromptTexts([ISSUE], ISSUE.title, ISSUE.body)).toBe(true)
  expect(await hasPromptTexts([], ISSUE.title)).toBe(false)
})

test('other issues change the cache key', async () => {
  const [none, one] = await Promise.all([buildState([]), buildState([ISSUE])])
  expect(authoringStage.cacheInputs(one)).not.toEqual(authoringStage.cacheInputs(none))
})
