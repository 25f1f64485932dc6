import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { create } from 'tar'
import { afterAll, expect, test, vi } from 'vitest'
import { startProvider } from '../../samples/provider/provider.ts'
import { addHarness, removeHarness, sendBundle } from '../../src/catalog/custom-harnesses/schema.ts'
import { inBenchmark } from '../../src/comparisons/schema.ts'
import { type ClientOptions, call } from '../../src/platform/http/client.ts'
import { newKey } from '../../src/workspaces/key.ts'
import { CHAOS, writeDataset } from '../chaos/dataset.ts'
import { patientUser } from '../chaos/patient.ts'
import { testDatabase } from '../support/database.ts'
import { hasPart } from '../support/parts.ts'
import { startService } from '../support/service.ts'
import { compareScripted } from './compare-scripted.ts'

vi.setConfig({ testTimeout: 900_000 })

const HARNESS = 'custom/silent'
const GONE = /The bundle sha256:[0-9a-f]{64} has been deleted\. Upload its archive again, then resume\./
const org = { org: 'local' }

const folder = mkdtempSync(join(tmpdir(), 'assay-gone-'))
const data = join(folder, 'data')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A program that runs long enough to be canceled, and never calls its model. */
async function program(): Promise<Blob> {
  const place = mkdtempSync(join(folder, 'program-'))
  writeFileSync(join(place, 'run'), '#!/bin/sh\n[ "$1" = --version ] || sleep 10\n')
  chmodSync(join(place, 'run'), 0o755)
  return new Blob([await buffer(create({ gzip: true, cwd: place, portable: true }, ['.']))])
}

test.skipIf(!hasPart('bwrap'))(
  'a comparison resumed after its program was deleted names the program, and continues once it is uploaded again',
  async () => {
    await using undo = new AsyncDisposableStack()
    const provider = undo.use(await startProvider({ tasks: [] }))
    const database = undo.use(await testDatabase())
    writeDataset(join(folder, 'registry'), 1)
    const key = newKey()
    const service = await startService('serve', ['--data', data, '--port', '0'], {
      ASSAY_BOOTSTRAP_KEY: key,
      DATABASE_URL: database.url,
      ASSAY_SANDBOXES: 'local',
      ASSAY_ALLOW_HOST_BASE: '1',
      ASSAY_REGISTRIES: `dir:${join(folder, 'registry')}`,
      ASSAY_GATEWAY_UPSTREAM_CUSTOM_SCRIPTED: `${provider.url}/v1`,
    })
    undo.defer(async () => void (await service.kill('SIGTERM')))
    const at = { url: service.url, key }
    const upload = await program()
    const id = await compare(at, upload)
    const user = patientUser(at)
    const params = { ...CHAOS, comparisonId: id }
    const resume = () => call(at, inBenchmark.resume, { params, body: {} })
    const trialIn = async (state: string) => {
      const read = async () => (await user.trials(id)).find((trial) => trial.state === state)
      return vi.waitUntil(read, { timeout: 280_000, interval: 200 })
    }
    await trialIn('running')
    await call(at, inBenchmark.cancel, { params })
    await trialIn('canceled')

    // Deletes the bundle, as the sweep does days after it became unused.
    await call(at, removeHarness, { params: { ...org, slug: HARNESS.slice('custom/'.length) } })
    await database.pool.query('delete from harness_bundles')
    rmSync(join(data, 'harnesses'), { recursive: true, force: true })
    await resume()
    expect(await trialIn('errored')).toMatchObject({ costUsd: 0, error: expect.stringMatching(GONE) })

    await call(at, sendBundle, { params: org, upload })
    await resume()
    expect(await trialIn('failed')).toMatchObject({ costUsd: 0, error: expect.not.stringMatching(GONE) })
  },
)

async function compare(at: ClientOptions, upload: Blob): Promise<string> {
  const { body: sent } = await call(at, sendBundle, { params: org, upload })
  const bundle = { digest: sent.digest, node: false, probe: ['{bundle}/run', '--version'] }
  const facts = {
    version: '1',
    protocols: ['openai-chat' as const],
    levels: { high: 'high' },
    command: ['{bundle}/run'],
  }
  await call(at, addHarness, { params: org, body: { ...facts, id: HARNESS, name: 'silent', bundle } })
  return compareScripted(at, [HARNESS])
}
