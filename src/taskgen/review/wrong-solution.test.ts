import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ScriptInput } from '../../../samples/provider/script.ts'
import { NO_WRONG_SOLUTION, said, whenRepairing } from '../../../test/support/taskgen/scripted-answers.ts'
import { openStageModelFixture, type StageModelFixture } from '../../../test/support/taskgen/stage-model.ts'
import { VERIFIER_LIMITS } from '../models/stage-model.ts'
import { challengeTask } from './wrong-solution.ts'

const BEFORE = 'UNITS = {"h": 3600}\n'
const AFTER = `${BEFORE}\ndef parse(text):\n    return int(text[:-1]) * UNITS[text[-1]]\n`
const INPUT = {
  instruction: 'A function reads a text such as "12h" and gives seconds. Numbers may have several digits.\n',
  hidden: {
    files: [{ path: 'test_a.py', content: 'def test_a():\n    assert parse("1h") == 3600\n', executable: false }],
    deleted: [],
  },
  source: 'diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,4 @@\n',
  files: [{ path: 'a.py', before: BEFORE, after: AFTER }],
  survivors: [{ kind: 'mutant' as const, path: 'a.py', line: 4, before: 'text[:-1]', after: 'text[:1]' }],
}

const SENTENCE = 'Numbers may have several digits.'
const ATTEMPT = {
  sentence: SENTENCE,
  why: 'For 12h it gives 3600.',
  edits: [{ path: 'a.py', find: 'int(text[:-1])', replace: 'int(text[0])' }],
}
const HARMLESS = [{ number: 1, sentence: null, why: 'It means the same.' }]
const WRONG = [{ number: 1, sentence: SENTENCE, why: 'For 12h it gives 3600.' }]

const whenAsked = (value: unknown) => ({ match: 'find a wrong solution that passes', turns: [said(value)] })
const whenJudging = (...isWrong: boolean[]) => ({
  match: 'judge edits of a solution',
  turns: [said({ solutions: isWrong.map((each, at) => ({ number: at + 1, isWrong: each, why: 'Look.' })) })],
})

let fixture: StageModelFixture
beforeAll(async () => {
  fixture = await openStageModelFixture()
})
afterAll(async () => fixture[Symbol.asyncDispose]())

async function challenge(isPassed: boolean, tasks: ScriptInput['tasks'], input: typeof INPUT = INPUT) {
  await using model = await fixture.open('anthropic-messages', { tasks }, VERIFIER_LIMITS)
  const patches: string[] = []
  const run = async (patch: string) => {
    patches.push(patch)
    return isPassed
  }
  const result = await challengeTask(model, input, run, new AbortController().signal)
  return { result, patches, calls: (await model.close()).calls }
}

test('accepts a task if the model knows of no wrong solution', async () => {
  const { result, patches, calls } = await challenge(true, [NO_WRONG_SOLUTION])
  expect(result).toMatchObject({ kind: 'done', value: { verdict: 'none', attempt: null, survivors: [] } })
  expect([patches, calls]).toEqual([[], 1])
})

test('accepts a task whose tests fail with the wrong solution', async () => {
  const { result, patches, calls } = await challenge(false, [whenAsked({ survivors: HARMLESS, attempt: ATTEMPT })])
  expect(result).toMatchObject({ kind: 'done', value: { verdict: 'none', attempt: { isPassed: false } } })
  expect([patches.length, calls]).toEqual([1, 1])
  expect(patches[0]).toContain('+    return int(text[0]) * UNITS[text[-1]]\n')
})

test('rejects a task with the violated sentence if a confirmed wrong solution passes', async () => {
  const tasks = [whenAsked({ survivors: HARMLESS, attempt: ATTEMPT }), whenJudging(true)]
  const { result, calls } = await challenge(true, tasks)
  expect(result).toMatchObject({
    kind: 'rejected',
    reason: 'wrong_solution_passes',
    detail: expect.stringContaining(SENTENCE),
    evidence: { challenge: { verdict: 'confirmed', attempt: { isPassed: true, sentence: SENTENCE } } },
  })
  expect(calls).toBe(2)
})

test('rejects a task if an incomplete solution of the execution violates a sentence', async () => {
  const { result, patches } = await challenge(true, [whenAsked({ survivors: WRONG, attempt: null }), whenJudging(true)])
  expect(result).toMatchObject({ kind: 'rejected', reason: 'wrong_solution_passes' })
  expect(patches).toEqual([])
})

test('keeps a task if the second answer does not confirm that the solution is wrong', async () => {
  const tasks = [whenAsked({ survivors: WRONG, attempt: ATTEMPT }), whenJudging(false, false)]
  expect((await challenge(true, tasks)).result).toMatchObject({
    kind: 'done',
    value: { verdict: 'refuted', survivors: [{ sentence: SENTENCE }], attempt: { isPassed: true } },
  })
})

test.each<[string, unknown, string]>([
  [
    'a sentence that is made up',
    { survivors: HARMLESS, attempt: { ...ATTEMPT, sentence: 'No such sentence.' } },
    'to the letter',
  ],
  ['a survivor that is not answered', { survivors: [], attempt: null }, 'no entry with the number 1'],
  [
    'an edit of a text that is not there',
    { survivors: HARMLESS, attempt: { ...ATTEMPT, edits: [{ path: 'a.py', find: 'int(x)', replace: '' }] } },
    'The text to replace occurs 0 times in a.py',
  ],
  [
    'an edit of another file',
    { survivors: HARMLESS, attempt: { ...ATTEMPT, edits: [{ path: 'b.py', find: 'x', replace: '' }] } },
    'The solution has no file',
  ],
])('%s: one repair, then the answer is not used', async (_, answer, fault) => {
  const { result, patches, calls } = await challenge(true, [whenAsked(answer)])
  expect(result).toMatchObject({ kind: 'done', value: { verdict: 'unusable', detail: expect.stringContaining(fault) } })
  expect([patches, calls]).toEqual([[], 2])
  const repaired = [whenRepairing(said({ survivors: HARMLESS, attempt: null }), fault), whenAsked(answer)]
  expect((await challenge(true, repaired)).result).toMatchObject({ value: { verdict: 'none' } })
})

test('an outage defers the task', async () => {
  await using model = await fixture.open('anthropic-messages', { faults: [{ status: 500, times: 9 }] }, VERIFIER_LIMITS)
  const result = await challengeTask(model, INPUT, async () => true, new AbortController().signal)
  expect(result).toMatchObject({ kind: 'deferred', reason: 'provider' })
})
