import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test, vi } from 'vitest'
import { assay } from '../support/assay-command.ts'
import { startService } from '../support/service.ts'

vi.setConfig({ testTimeout: 180_000 })

/** Written by `assay backup` of revision 3c7d96b, which had the first 23 migrations. */
const ARCHIVE = join(import.meta.dirname, 'older-backup.tar.gz')
const SECRET_KEY = createHash('sha256').update('backup of an older version').digest('hex')

type Expected = { adminKey: string; url: string; results: Record<string, object> }

const folder = mkdtempSync(join(tmpdir(), 'assay-upgrade-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('data of an older version keeps its public results, keys, credentials and configurations', async () => {
  execFileSync('tar', ['-xzf', ARCHIVE, '-C', folder])
  const expected: Expected = JSON.parse(readFileSync(join(folder, 'expected.json'), 'utf8'))
  const settings = { ASSAY_DATA: join(folder, 'data'), ASSAY_SECRET_KEY: SECRET_KEY }
  const restored = await assay(['restore', join(folder, 'backup')], { env: settings })
  expect(restored, restored.err).toMatchObject({ code: 0 })

  const service = await startService('api', ['--port', '0'], settings)
  try {
    const get = async (path: string) => {
      const response = await fetch(service.url + path, { headers: { authorization: `Bearer ${expected.adminKey}` } })
      expect(response.status, path).toBe(200)
      return JSON.parse((await response.text()).replaceAll(service.url, expected.url))
    }
    const stored = expect.arrayContaining([expect.objectContaining({ name: 'Team key', hint: 'cdef' })])
    // New versions may add fields.
    for (const [path, body] of Object.entries(expected.results)) expect(await get(path), path).toMatchObject(body)
    expect(await get('/api/orgs/local/credentials')).toMatchObject({ credentials: stored })
    expect(await get('/api/orgs/local/configurations/rules')).toMatchObject({ files: [{ text: 'Greet politely.\n' }] })
  } finally {
    await service.kill('SIGTERM')
  }
})
