import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ProviderScript, turnOf } from '../../samples/provider/script.ts'
import { createCommandHarness } from '../../src/harnesses/reference.ts'
import { openTrialRunner } from '../support/trials/trial-runner.ts'

const SAMPLES = new URL('../../samples/', import.meta.url).pathname
const script = ProviderScript.parse(JSON.parse(readFileSync(join(SAMPLES, 'provider/quick.json'), 'utf8')))

let runner: Awaited<ReturnType<typeof openTrialRunner>>
beforeAll(async () => {
  runner = await openTrialRunner('bwrap')
}, 600_000)
afterAll(async () => runner[Symbol.asyncDispose]())

/** What the model has a program run, turn by turn. */
function linesOf(prompt: string, level: string): string[] {
  const asked = { prompt, level, model: 'm', isStream: false, tools: [], wantsUsage: true, outputMax: null }
  const lines: string[] = []
  for (let line = turnOf(script, { ...asked, lastResult: '', results: 0 }).run; line !== undefined; ) {
    lines.push(line)
    line = turnOf(script, { ...asked, lastResult: '', results: lines.length }).run
  }
  return lines
}

test.each([
  ['earn-partial-credit', 0.5, 1],
  ['greet-in-bash', 1, 1],
  ['inventory-on-a-prebuilt-image', 1, 1],
  ['old-memory-keys', 0, 1],
  ['pack-it-up', 0, 1],
])('the script earns in %s at a low level %d, and at a high one %d', async (name, low, high) => {
  const folder = join(SAMPLES, 'tasks', name)
  const prompt = readFileSync(join(folder, 'instruction.md'), 'utf8')
  for (const [level, reward] of [
    ['low', low],
    ['HIGH', high],
  ] as const) {
    const lines = linesOf(prompt, level)
    expect(lines.length).toBeGreaterThan(0)
    expect(await runner.run(folder, createCommandHarness(lines.join('\n')))).toMatchObject({
      class: 'verified',
      reward,
    })
  }
})
