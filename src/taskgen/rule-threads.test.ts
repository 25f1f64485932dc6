import { expect, test } from 'vitest'
import { watchLoop } from '../../test/support/loop-delay.ts'
import { applyRules } from './rule-threads.ts'

const ADDED = 'diff --git a/a.ts b/a.ts\n--- a/a.ts\n+++ b/a.ts\n@@ -1 +1,2 @@\n+export const limit = 1\n'

test('rules that take long on hostile tests do not block the event loop', async () => {
  const content = `limit\n"${'\\"'.repeat(400_000)}`
  const loop = watchLoop()
  const found = await applyRules('listSymbolCandidates', {
    source: ADDED,
    hidden: { files: [{ path: 'a.test.ts', content, executable: false }], deleted: [] },
  })
  expect(loop.percentile(0.99)).toBeLessThan(200)
  expect(found.kind === 'done' && found.value.map(({ text }) => text)).toEqual(['limit'])
})

test('reads a tree in a thread', async () => {
  const files = { 'package.json': '{"name":"kit","devDependencies":{"vitest":"1"}}', 'a.test.ts': '' }
  const facts = { paths: new Set(Object.keys(files)), texts: new Map(Object.entries(files)), committedAt: new Date(0) }
  const inspected = await applyRules('inspectTree', { base: facts, head: facts, tests: ['a.test.ts'] })
  expect(inspected).toMatchObject({
    kind: 'done',
    value: { recipe: { runner: 'vitest' }, services: { uses: [] }, ownPackages: [{ name: 'node:kit' }] },
  })
})

test('slow files of one workspace do not delay those of another', async () => {
  const list = (workspaceId: string, content: string) => {
    const hidden = { files: [{ path: 'a.test.ts', content, executable: false }], deleted: [] }
    return applyRules('listSymbolCandidates', { source: ADDED, hidden }, workspaceId)
  }
  const settled: string[] = []
  const slow = Array.from({ length: 4 }, () => list('slow', `limit\n"${'\\"'.repeat(4_000_000)}`))
  for (const each of slow) void each.then(() => settled.push('slow'))
  await list('other', 'limit').then(() => settled.push('quick'))
  expect(settled).toEqual(['quick'])
})
