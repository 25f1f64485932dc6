import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Provider, startProvider } from '../../samples/provider/provider.ts'
import quick from '../../samples/provider/quick.json' with { type: 'json' }
import { createGenerator } from '../../src/statistics/frontier.ts'
import { decideVerdicts, measurePair } from '../../src/statistics/pairs.ts'
import { assay } from '../support/assay-command.ts'
import { hasPart } from '../support/parts.ts'
import { type ServiceProcess, startService } from '../support/service.ts'
import { toSeed } from '../support/statistics/simulation.ts'

const RULES = 'House rules: greet politely and count the stock.\n'
const PLACEBO = 'Hello there: have a nice day and enjoy the work.\n'

/** Tasks that the model solves only if it finds the rules in AGENTS.md. */
const NEEDS_RULES = ['/app/greet.sh', '/srv/stock.tsv']
/** The same usage in every turn, so that all settings cost the same. */
const usage = { input: 1000, output: 100 }

/** A model that reads AGENTS.md first. It solves two tasks only with the rules in its context, and the others always. */
const script = {
  tasks: NEEDS_RULES.map((match) => {
    const solution = quick.tasks.find((task) => task.match === match && task.turns[0]?.run)?.turns[0]?.run ?? ''
    return {
      match,
      turns: [
        { run: 'cat AGENTS.md 2>/dev/null; true', usage },
        { run: `case '{result}' in *'House rules'*) ${solution};; esac`, usage },
        { say: 'Done.', usage },
      ],
    }
  }).concat(quick.tasks.filter(({ level }) => level === undefined) as never),
}

describe.skipIf(!hasPart('bwrap'))('a comparison of configurations', () => {
  const folder = mkdtempSync(join(tmpdir(), 'assay-configured-'))
  let service: ServiceProcess
  let provider: Provider
  beforeAll(async () => {
    provider = await startProvider(script)
    service = await startService('serve', ['--data', join(folder, 'data'), '--port', '0'], {
      ASSAY_ALLOW_HOST_BASE: '1',
      ASSAY_SANDBOXES: 'local',
    })
  }, 120_000)
  afterAll(async () => {
    await service.kill('SIGTERM')
    await provider[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true, force: true })
  }, 60_000)
  const run = (...args: string[]) => assay(args, { env: { ASSAY_URL: service.url, ASSAY_KEY: service.newKey ?? '' } })

  test('finds the two tasks that only an AGENTS.md solves, and nothing for a placebo of the same length', async () => {
    expect(PLACEBO).toHaveLength(RULES.length)
    for (const [name, text] of [
      ['rules', RULES],
      ['placebo', PLACEBO],
    ] as const) {
      mkdirSync(join(folder, name))
      writeFileSync(join(folder, name, 'AGENTS.md'), text)
    }
    expect((await run('benchmarks', 'add', 'assay/quick')).code).toBe(0)
    const added = await run('models', 'add', 'custom/scripted', '--base-url', `${provider.url}/v1`)
    expect(added.code, added.err).toBe(0)
    const configurations = ['none', join(folder, 'rules'), join(folder, 'placebo')].flatMap((each) => [
      '--configuration',
      each,
    ])
    const compared = await run(
      '--json',
      'compare',
      'assay/quick',
      '--model',
      'custom/scripted=mini',
      ...configurations,
      '--yes',
    )
    expect(compared.code, compared.err).toBe(0)
    const { id, settings, answer } = JSON.parse(compared.out)
    const plain = 'custom/scripted|mini|none'
    expect(settings.map(({ id: setting, passed }: { id: string; passed: number }) => [setting, passed])).toEqual([
      [plain, 3],
      [`${plain}|rules@1`, 5],
      [`${plain}|placebo@1`, 3],
    ])
    expect(answer.recommended).toBe(`${plain}|rules@1`)
    expect(answer.text).toContain('scripted with mini and rules@1')
    const { pairs } = JSON.parse(
      (await run('--json', 'comparisons', 'pairs', 'assay/quick', id, '--baseline', plain)).out,
    )
    expect(pairs).toMatchObject([
      { a: `${plain}|rules@1`, wonByA: 2, wonByB: 0, both: 3, neither: 0 },
      { a: `${plain}|placebo@1`, wonByA: 0, wonByB: 0, both: 3, neither: 2, verdict: 'cannot_tell' },
    ])
  }, 300_000)
})

/** Outcomes of one setting: each task has its own probability of passing, the same for every setting. */
function drawResults(chances: readonly number[], attempts: number, random: () => number) {
  const passes = chances.map((chance) => Array.from({ length: attempts }, () => (random() < chance ? 1 : 0)))
  const sums = passes.map((row) => row.reduce<number>((sum, each) => sum + each, 0))
  return {
    results: {
      trials: Float64Array.from(chances, () => attempts),
      passes: Float64Array.from(sums),
      passed: Float64Array.from(passes, (row) => row[0] ?? 0),
      micros: Float64Array.from(chances, () => 1000),
    },
  }
}

test('a placebo ends in cannot_tell in at least 95 of 100 seeded comparisons', () => {
  const verdicts = Array.from({ length: 100 }, (_, seed) => {
    const next = createGenerator(toSeed('placebo', seed))
    const random = () => next() / 2 ** 32
    const chances = Array.from({ length: 24 }, () => random() ** 2)
    const pair = measurePair(drawResults(chances, 3, random), drawResults(chances, 3, random))
    return decideVerdicts([pair])[0]?.verdict
  })
  expect(verdicts.filter((verdict) => verdict === 'cannot_tell').length).toBeGreaterThanOrEqual(95)
})
