import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { smallTask } from '../../../test/support/archives.ts'
import { temporaryFolder } from '../../../test/support/harbor/folders.ts'
import { watchLoop } from '../../../test/support/loop-delay.ts'
import { screenTask } from './screen-task.ts'

const LINE = 'if [ a ]; then echo $(cat x) | tee y; fi\n'

test.each([
  ['4,000 files', Object.fromEntries(Array.from({ length: 4_000 }, (_, n) => [`tests/${n}.txt`, 'x'.repeat(500)]))],
  ['a long script', { 'tests/test.sh': `#!/bin/bash\n${LINE.repeat(20_000)}` }],
])('screening a task with %s does not block the event loop', async (_, files) => {
  await using folder = await temporaryFolder()
  for (const [path, content] of Object.entries(smallTask(files))) {
    mkdirSync(dirname(join(folder.path, path)), { recursive: true })
    writeFileSync(join(folder.path, path), content)
  }
  const loop = watchLoop()
  const { task, accepted } = await screenTask(folder.path, { id: 'a', path: '' })
  expect(loop.percentile(1)).toBeLessThan(200)
  expect(task).toMatchObject({ rejection: null, digest: accepted?.digest })
})
