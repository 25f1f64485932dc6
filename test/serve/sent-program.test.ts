import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { create } from 'tar'
import { afterAll, expect, test, vi } from 'vitest'
import { startProvider } from '../../samples/provider/provider.ts'
import { addHarness, sendBundle } from '../../src/catalog/custom-harnesses/schema.ts'
import { inBenchmark } from '../../src/comparisons/schema.ts'
import { type ClientOptions, call, download } from '../../src/platform/http/client.ts'
import { newKey } from '../../src/workspaces/key.ts'
import { CHAOS, writeDataset } from '../chaos/dataset.ts'
import { patientUser } from '../chaos/patient.ts'
import { provideNode } from '../support/harnesses/scripted-gateway.ts'
import { hasPart } from '../support/parts.ts'
import { startService } from '../support/service.ts'
import { compareScripted } from './compare-scripted.ts'

vi.setConfig({ testTimeout: 600_000 })

const PROGRAM = new URL('../support/harnesses/house-agent/', import.meta.url).pathname
const WORK = `printf '%s\\n' '#!/bin/bash' 'printf "Hello, %s!\\n" "\${1:-world}"' > /app/greet.sh && chmod +x /app/greet.sh`
const USAGE = { input: 1000, output: 50 }
const SCRIPT = {
  tasks: [
    {
      match: '/app/greet.sh',
      model: 'scripted-1',
      level: 'high',
      turns: [
        { say: 'I write the script.', run: WORK, usage: USAGE },
        { say: 'It greets.', usage: USAGE },
      ],
    },
  ],
}
// 2 and 10 USD per million tokens, twice.
const TRIAL_USD = 0.005

const folder = mkdtempSync(join(tmpdir(), 'assay-sent-'))
const data = join(folder, 'data')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test.skipIf(!hasPart('harnesses'))(
  'an uploaded harness program works on a task, scored and metered; one that does not fit the image costs nothing',
  async () => {
    await using undo = new AsyncDisposableStack()
    const provider = undo.use(await startProvider(SCRIPT))
    await provideNode(data)
    writeDataset(join(folder, 'registry'), 1)
    const key = newKey()
    const service = await startService('serve', ['--data', data, '--port', '0'], {
      ASSAY_BOOTSTRAP_KEY: key,
      ASSAY_REGISTRIES: `dir:${join(folder, 'registry')}`,
      ASSAY_SANDBOXES: 'local',
      ASSAY_ALLOW_HOST_BASE: '1',
      ASSAY_GATEWAY_UPSTREAM_CUSTOM_SCRIPTED: `${provider.url}/v1`,
    })
    undo.defer(async () => void (await service.kill('SIGTERM')))
    const at = { url: service.url, key }
    const id = await compareScripted(at, await describe(at))
    const user = patientUser(at)
    await vi.waitUntil(async () => (await user.read(id)).state === 'completed', { timeout: 300_000, interval: 200 })

    const trials = await user.trials(id)
    const [works, misfit] = ['custom/house-agent', 'custom/misfit'].map((name) =>
      trials.find(({ settingId }) => settingId.includes(name)),
    )
    expect(works).toMatchObject({ state: 'passed', class: 'verified', reward: 1, costSource: 'metered' })
    expect(works?.costUsd).toBeCloseTo(TRIAL_USD, 6)
    expect(misfit).toMatchObject({ state: 'errored', class: 'operator_error', costUsd: 0 })
    expect(provider.calls().map(({ model, level, status }) => [model, level, status])).toEqual([
      ['scripted-1', 'high', 200],
      ['scripted-1', 'high', 200],
    ])
    const { settings, costUsd } = await user.read(id)
    expect(settings).toMatchObject([
      { harness: 'custom/house-agent', harnessVersion: '1', custom: true, accuracy: 100 },
      { harness: 'custom/misfit', custom: true, accuracy: null },
    ])
    expect(costUsd).toBeCloseTo(TRIAL_USD, 6)
    const artifact = works?.artifacts.map(({ name }) => name).find((name) => name.includes('trajectory')) ?? ''
    const params = { ...CHAOS, comparisonId: id, trialId: works?.id ?? '', artifact }
    const { bytes } = await download(at, inBenchmark.artifact, { params })
    expect(Buffer.from(bytes).toString()).toContain('It greets.')
  },
)

const org = { org: 'local' }

/** Uploads the program once and adds two harnesses that use it. */
async function describe(at: ClientOptions): Promise<string[]> {
  const upload = new Blob([await buffer(create({ gzip: true, cwd: PROGRAM }, ['.']))])
  const { body: sent } = await call(at, sendBundle, { params: org, upload })
  const facts = {
    version: '1',
    protocols: ['openai-chat' as const],
    levels: { high: 'high' },
    command: ['{node}', '{bundle}/agent.mjs', '{baseUrl}', '{model}', '{level}'],
    files: [{ path: '.house/settings.json', text: '{"token":"{token}"}' }],
    output: [{ when: { event: 'said' }, tells: 'message' as const, text: 'text' }],
  }
  const probes = { 'house-agent': ['{node}', '{bundle}/agent.mjs', '--version'], misfit: ['{bundle}/another'] }
  for (const [name, probe] of Object.entries(probes)) {
    const bundle = { digest: sent.digest, node: true, probe }
    await call(at, addHarness, { params: org, body: { ...facts, id: `custom/${name}`, name, bundle } })
  }
  return Object.keys(probes).map((name) => `custom/${name}`)
}
