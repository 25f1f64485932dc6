import { expect, test } from 'vitest'
import { testApp } from '../../../test/support/app.ts'
import { smallTask } from '../../../test/support/archives.ts'
import { temporaryFolder } from '../../../test/support/harbor/folders.ts'
import { contentStore } from '../../contents/contents.ts'
import { listCredentials } from '../../credentials/schema.ts'
import { readTask } from '../../harbor/read-task.ts'
import { createMemorySource } from '../../harbor/source.ts'

test('runs a package of a registry with files that Harbor would leave out of a folder', async () => {
  await using app = await testApp({ ASSAY_SANDBOXES: 'local', ASSAY_ALLOW_HOST_BASE: '1' })
  await using output = await temporaryFolder()
  const contents = smallTask({ 'tests/.harborignore': '*.log\n', 'tests/data.pyc': 'x' })
  const files = Object.entries(contents).map(
    ([path, content]) => [path, { content, executable: path.endsWith('.sh') }] as const,
  )
  const source = createMemorySource('hello', files)
  const { digest } = await readTask(source, { includeIgnored: true })
  await contentStore({ db: app.database.db, blobs: app.tools.blobs }).put(digest, source)
  const { credentials } = (await app.call(listCredentials, {})).body
  const { rows } = await app.database.pool.query(`select id from workspaces where login = 'local'`)

  const request = {
    task: { name: 'hello', digest },
    sandbox: 'local',
    workspaceId: rows[0].id,
    sandboxCredentialId: credentials.find(({ provider }: { provider: string }) => provider === 'local').id,
    outputFolder: output.path,
  }
  const result = await app.tools.engine.calibrate(request, new AbortController().signal)
  expect(result).toMatchObject({ kind: 'fit' })
})
