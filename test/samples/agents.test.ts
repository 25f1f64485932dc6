import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { ScriptInput } from '../../samples/provider/script.ts'
import { install } from '../../src/harnesses/bundles/install.ts'
import type { Harness } from '../../src/harnesses/harness.ts'
import { findHarness } from '../../src/harnesses/harnesses.ts'
import { imageFor } from '../support/harnesses/harness-image.ts'
import { unset } from '../support/harnesses/level-cases.ts'
import { bundlesFolder, openScriptedGateway } from '../support/harnesses/scripted-gateway.ts'
import { hasPart, isLongRun } from '../support/parts.ts'
import { IMAGE, openTrialRunner } from '../support/trials/trial-runner.ts'

const SAMPLES = new URL('../../samples/', import.meta.url).pathname
const QUICK: ScriptInput = JSON.parse(readFileSync(join(SAMPLES, 'provider/quick.json'), 'utf8'))
const TASKS = [
  'earn-partial-credit',
  'greet-in-bash',
  'inventory-on-a-prebuilt-image',
  'old-memory-keys',
  'pack-it-up',
] as const
const ONLY_TEXT: ScriptInput = {
  tasks: [
    { match: '/srv/stock.tsv', turns: [{ say: 'I write the list.\n\nmissing.txt\n```\npear\nquince\n```\n' }] },
    { match: 'the', turns: [{ say: 'That needs a command, and I cannot run any.' }] },
  ],
}
const INSTALL_MS = 600_000
/** The tasks allow two minutes, in which some programs do not even start on a busy machine. */
const TIMEOUT_MULTIPLIER = 5

/** Programs that have a single protocol, and how many of the tasks a scripted model solves with each. */
const PROGRAMS: [id: string, script: ScriptInput, passed: number][] = [
  ...['cline', 'continue', 'reasonix', 'kilo', 'mini-swe-agent', 'gptme', 'mistral-vibe'],
  ...['code-puppy', 'hermes-agent', 'fast-agent'],
].map((id): [string, ScriptInput, number] => [id, QUICK, TASKS.length])

// Its shell tool takes `cd folder && command` for the name of a folder.
PROGRAMS.push(['grok-cli', QUICK, 4])
// Offers the model no tools, so the model answers with files.
PROGRAMS.push(['aider', ONLY_TEXT, 1])

describe.runIf(isLongRun() && hasPart('bwrap') && hasPart('harnesses'))('assay/quick with a scripted model', () => {
  test.each(PROGRAMS)('%s ends every task with a score', async (id, script, passed) => {
    const harness = findHarness(id) as Harness
    const image = imageFor(harness)
    await using models = await openScriptedGateway()
    await using runner = await openTrialRunner('bwrap', { images: [{ name: IMAGE, rootfs: image.rootfs }] })
    const bundles = { folder: await bundlesFolder() }
    const signal = AbortSignal.timeout(INSTALL_MS)
    if (harness.bundle) await install(harness.bundle, { ...bundles, signal, onProgress: () => {} })
    const results = []
    for (const name of TASKS) {
      const { place: model, totals } = await models.open(harness, unset('openai-chat', 'some-model'), script)
      const outputFolder = join(runner.folder, name)
      const more = { isProven: true, outputFolder, model, bundles, timeoutMultiplier: TIMEOUT_MULTIPLIER }
      const record = await runner.run(join(SAMPLES, 'tasks', name), harness, 'workspace', more)
      const { calls } = await totals()
      results.push({ name, state: record.state, class: record.class, isModelUsed: calls.succeeded > 0 })
    }
    const expected = TASKS.map((name) => ({ name, class: 'verified', isModelUsed: true }))
    expect(results).toMatchObject(expected)
    expect(results.filter(({ state }) => state === 'passed').length, JSON.stringify(results)).toBe(passed)
  })
})
