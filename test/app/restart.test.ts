import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { addBenchmark } from '../../src/benchmarks/schema.ts'
import { inBenchmark } from '../../src/comparisons/schema.ts'
import { call } from '../../src/platform/http/client.ts'
import { newKey } from '../../src/workspaces/key.ts'
import { openBrowser, openPage, signIn } from '../support/browser.ts'
import { QUICK } from '../support/comparisons.ts'
import { startService } from '../support/service.ts'

/** The service starts twice, each time with its database. */
const TIMEOUT_MS = 300_000

test(
  'a page recovers after the service is killed and restarted, and shows the current state',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'assay-restart-'))
    const key = newKey()
    // Without a worker the comparison stays as it is until this test changes it.
    const start = (port: string) =>
      startService('api', ['--data', folder, '--port', port], { ASSAY_BOOTSTRAP_KEY: key })
    const browser = await openBrowser()
    const first = await start('0')
    const { url } = first
    const client = { url, key }
    const params = { org: 'local', ...QUICK }
    await call(client, addBenchmark, { params, body: { reference: 'assay/quick' } })
    const { body: catalog } = await call(client, inBenchmark.catalog, { params })
    const comparisonId = randomUUID()
    await call(client, inBenchmark.create, {
      params,
      body: {
        id: comparisonId,
        models: [{ catalogId: 'reference', credentialId: idOf(catalog.models[0]), harnesses: ['oracle', 'nop'] }],
        sandbox: 'local',
        sandboxCredentialId: idOf(catalog.sandboxes.find(({ id }) => id === 'local')),
      },
    })
    const { page } = await openPage(browser, url)
    await signIn(page, key, `/app/benchmarks/assay/quick/comparisons/${comparisonId}`)
    await page.locator('.title-line', { hasText: 'submitting' }).waitFor()

    await first.kill('SIGKILL')
    await page.getByText('connection lost, reconnecting').waitFor()
    const second = await start(new URL(url).port)
    await call(client, inBenchmark.cancel, { params: { ...params, comparisonId } })
    await page.locator('.title-line', { hasText: 'canceled' }).waitFor()
    expect(await page.getByText('connection lost').count()).toBe(0)

    await browser.close()
    await second.kill('SIGTERM')
    rmSync(folder, { recursive: true, force: true })
  },
  TIMEOUT_MS,
)

const idOf = (choice: { credentials: { id: string }[] } | undefined): string => choice?.credentials[0]?.id ?? ''
