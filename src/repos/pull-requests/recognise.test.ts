import { expect, test } from 'vitest'
import { cpuMs } from '../../../test/support/cpu-time.ts'
import { type Commit, checkReverted, createReverts, recognisePullRequest } from './git-history.ts'

const commit = (message: string, parents = 1): Commit => {
  const [subject = '', ...body] = message.split('\n')
  return {
    id: 'a'.repeat(40),
    parents: Array.from({ length: parents }, (_, n) => String(n)),
    subject,
    body: body.join('\n').trim(),
    authorName: 'Ada',
    authorEmail: 'ada@example.org',
    authoredAt: 1,
    committedAt: 1,
  }
}

test.each([
  [
    'Merge pull request #12 from ada/fix-it\n\nFix it\n\nmore',
    2,
    { number: 12, title: 'Fix it', mark: 'merge', branch: 'fix-it' },
  ],
  ['Merge pull request 12 from ada/fix', 2, { number: 12, title: 'fix', mark: 'merge' }],
  ['Merge pull request #12 from ada/fix', 2, { number: 12, title: 'fix', mark: 'merge' }],
  ['Fix it (#12)', 1, { number: 12, title: 'Fix it', mark: 'squash' }],
  ['Fix it (#12)', 2, { number: 12, title: 'Fix it', mark: 'merge-title' }],
  ['Revert "Fix it (#12)" (#13)', 1, { number: 13, title: 'Revert "Fix it (#12)"' }],
  ['(#12)', 1, { number: 12, title: '' }],
  ['Auto merge of #12 - ada:fix, r=bob\n\nFix it', 2, { number: 12, title: 'Fix it', mark: 'merge' }],
  ['Merge #12\n\nFix it', 2, { number: 12, title: 'Fix it' }],
  [
    "Merge branch 'fix' into 'main'\n\nFix it\n\nSee merge request lab/demo!12",
    2,
    { number: 12, title: 'Fix it', branch: 'fix' },
  ],
  ['Fix it\n\nSee merge request lab/demo!12', 1, { number: 12, title: 'Fix it', mark: 'squash' }],
  ['Merged PR 12: Fix it', 1, { number: 12, title: 'Fix it' }],
  ['Merged in fix (pull request #12)\n\nFix it', 2, { number: 12, title: 'Fix it', branch: 'fix' }],
  ['fix: it\n\nPR-URL: https://github.com/nodejs/node/pull/12', 1, { number: 12, title: 'fix: it', mark: 'trailer' }],
  ['fix: it\n\nReviewed-on: https://review.example.org/c/demo/+/12', 1, { number: 12, mark: 'trailer' }],
])('recognises %j with %i parents as a pull request', (message, parents, expected) => {
  expect(recognisePullRequest(commit(message, parents))).toMatchObject(expected)
})

test.each([
  ['Fix it', 1],
  ['Fix #12', 1],
  ['Fix it (#12) at last', 1],
  ['Fix it (#0123456789012345)', 1],
  ['Merge pull request #12 from ada/fix', 1],
  ["Merge branch 'main' into fix", 2],
  ['Merge #12 #13', 2],
  ['Fix it\n\nSee https://github.com/lab/demo/pull/12', 1],
  ['', 1],
])('does not recognise %j with %i parents as a pull request', (message, parents) => {
  expect(recognisePullRequest(commit(message, parents))).toBeUndefined()
})

test('matches adversarial messages quickly', () => {
  const long = ' '.repeat(60_000)
  expect(recognisePullRequest(commit(`x${long}(#${'1'.repeat(60_000)}`))).toBeUndefined()
})

test('compares a title of many spaces with reverts quickly', async () => {
  const candidate = { id: 'a'.repeat(40), titles: [`x${' '.repeat(60_000)}y`], body: '' }
  expect(await cpuMs(() => checkReverted(createReverts(), candidate))).toBeLessThan(500)
})

test('a revert applies once, by id or title, and a revert of a revert applies to nothing', () => {
  const id = (name: string) => name.repeat(40)
  const candidate = (name: string, title: string, body = '') => ({ id: id(name), titles: [title], body })
  const reverts = createReverts()
  const newestFirst = [
    candidate('a', 'Revert "Revert "One (#1)""', `This reverts commit ${id('b')}.`),
    candidate('b', 'Revert "One (#1)"', `This reverts commit ${id('c')}.`),
    candidate('c', 'One (#1)'),
    candidate('d', 'Revert "Two"'),
    candidate('e', 'Two'),
    candidate('f', 'Two'),
  ]
  expect(newestFirst.map((each) => checkReverted(reverts, each))).toEqual([false, true, false, false, true, false])
})
