import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { writeHistory } from '../../../test/support/histories.ts'
import { openClone } from '../../repos/mirror/local-clone.ts'
import { listExposedSymbols } from './author.ts'

const { signal } = new AbortController()
const latin1 = (text: string) => Buffer.from(text).toString('latin1')

test('exposes only symbols that the base tree does not contain as a whole word', async () => {
  await using undo = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'assay-pins-'))
  undo.defer(() => rm(folder, { recursive: true, force: true }))
  const files = { 'a.py': 'retry_count = 1\nsay("unknown unit")\n', 'b.md': latin1('größer als, and known\n') }
  await writeHistory(join(folder, 'r'), [{ message: 'Base', files }])
  const clone = undo.use(await openClone(join(folder, 'r'), { signal }))

  const source = [
    'diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,3 @@',
    '+def retry(known, unit): say("unknown unit")\n+def fresh_name(): raise E("größer als", "kleiner als")\n',
  ].join('\n')
  const content =
    'a.retry(known=1, unit=2)\na.fresh_name()\nassert e == "unknown unit" or "größer als" or "kleiner als"'
  const hidden = { files: [{ path: 't.py', content: latin1(content), executable: false }], deleted: [] }
  const order = { location: clone.location, commit: clone.tip ?? '' }

  const exposed = await listExposedSymbols(order, { source: latin1(source), hidden }, signal)
  expect(exposed.kind === 'done' && exposed.value.map(({ text }) => text)).toEqual([
    'fresh_name',
    'retry',
    'kleiner als',
  ])
  expect(await listExposedSymbols(order, { source: '', hidden }, signal)).toEqual({ kind: 'done', value: [] })
})
