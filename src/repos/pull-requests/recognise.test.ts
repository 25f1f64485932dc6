import { expect, test } from 'vitest'
import { cpuMs } from '../../../test/support/cpu-time.ts'
import type { Commit } from './commit.ts'
import { recognise } from './recognise.ts'
import { isTakenBack, newReverts } from './reverts.ts'

const commit = (message: string, parents = 1): Commit => {
  const [subject = '', ...body] = message.split('\n')
  return {
    ...{
      id: 'a'.repeat(40),
      parents: Array.from({ length: parents }, (_, n) => String(n)),
      subject,
      body: body.join('\n').trim(),
    },
    ...{ authorName: 'Ada', authorEmail: 'ada@example.org', authoredAt: 1, committedAt: 1 },
  }
}

test.each([
  [
    'Merge pull request #12 from ada/fix-it\n\nFix it\n\nmore',
    2,
    { number: 12, title: 'Fix it', mark: 'merge', branch: 'fix-it' },
  ],
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
])('%j with %i parents is a pull request', (message, parents, expected) => {
  expect(recognise(commit(message, parents))).toMatchObject(expected)
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
])('%j with %i parents is none', (message, parents) => {
  expect(recognise(commit(message, parents))).toBeUndefined()
})

test('what takes a long time to match is not matched for long', () => {
  const long = ' '.repeat(60_000)
  expect(recognise(commit(`x${long}(#${'1'.repeat(60_000)}`))).toBeUndefined()
})

test('a title of many spaces is held against reverts in no time', async () => {
  const told = { id: 'a'.repeat(40), titles: [`x${' '.repeat(60_000)}y`], body: '' }
  expect(await cpuMs(() => isTakenBack(newReverts(), told))).toBeLessThan(500)
})

test('a revert takes back what came before it, by id or by title, once; a revert of a revert takes back nothing', () => {
  const id = (name: string) => name.repeat(40)
  const told = (name: string, title: string, body = '') => ({ id: id(name), titles: [title], body })
  const reverts = newReverts()
  const newestFirst = [
    told('a', 'Revert "Revert "One (#1)""', `This reverts commit ${id('b')}.`),
    told('b', 'Revert "One (#1)"', `This reverts commit ${id('c')}.`),
    told('c', 'One (#1)'),
    told('d', 'Revert "Two"'),
    told('e', 'Two'),
    told('f', 'Two'),
  ]
  expect(newestFirst.map((each) => isTakenBack(reverts, each))).toEqual([false, true, false, false, true, false])
})
